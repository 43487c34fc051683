#!/usr/bin/env python3
"""Whether check.py finds a replaced word in each kind of text, and nothing in a text without one.

usage: check_test.py SOURCE_ROOT
"""
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent

# (file, content, line that must be reported; 0: none)
CASES = [
    ("README.md", "A tool.\n\nIt reads who\nwaits.\n", 3),
    ("docs/guide.md", "A reader\nis given\nup here.\n", 2),  # a phrase across lines
    ("docs/guide.md", "Nothing is reported.\n", 0),
    ("docs/guide.md", "See `src/deputy.cpp`.\n", 1),  # no such file
    ("docs/tracing.md", 'It has `"others":true`.\n', 0),
    ("docs/tracing.md", "It has others.\n", 1),
    ("docs/architecture.md", "| who | `a.hpp` |\n", 1),
    ("include/vitrine/one.hpp", "int who();\n/// Says more.\n", 2),
    ("include/vitrine/one.hpp", "int who();  // a caller\n", 0),
    ("include/two.h", "/* A comment\n * on display. */\n", 2),
    ("src/cli/one.cpp", '#include "cli/answer.hpp"\nint who;  // reports\n', 0),
    ("src/cli/one.cpp", '#include "cli/answer.hpp"\nint who;  // says\n', 2),
    ("src/cli/one.cpp", "/// There is none; the others have `moment.sets`.\n", 0),
    ("src/bpf/kernel/one.bpf.h", "/* A set of\n * our own. */\n", 2),
    ("src/cli/one.cpp", 'auto text = "it reads "\n            "memory of others";\n', 1),
    ("src/cli/one.cpp", 'auto text = R"(nobody reads)";\n', 1),
    ("src/cli/one.cpp", 'char c = \'"\'; int told; auto text = "fine";\n', 0),
    ("src/cli/trace/reduction.cpp", 'row["others"] = true;\n', 0),
    ("src/cli/trace/reduction.cpp", 'print("the others");\n', 1),
    ("web/src/ui/one.tsx", "const others = <p>all values</p>;\n", 0),
    ("web/src/ui/one.tsx", "const a = 1;\nconst b = <p>all others</p>;\n", 2),
    ("web/src/one.ts", "throw new Error(`${c} tells`);\n", 1),
    ("bindings/node/index.js", "// says\nthrow new TypeError('nobody');\n", 2),
    ("packaging/debian/packages.cmake", 'set(text "for whom")\n', 1),
    ("packaging/debian/command/templates", "Description: moment\n", 1),
    ("run", '# says\ndie "not ours"\n', 2),
]
HELP = [
    ("# nothing", 0, ""),
    ('echo "reads who waits"', 1, "vitrine labels --help:1: `who`"),
]


def run(root: pathlib.Path, help_line: str = ":"):
    vitrine = root / "vitrine.sh"
    vitrine.write_text(f"""#!/bin/sh
if [ "$1" = --man-into ]; then echo '.TH vitrine' >"$2/vitrine.1"; echo '.TH labels' >"$2/vitrine-labels.1"; exit; fi
if [ "$1" = labels ]; then {help_line}
:; fi
""")
    os.chmod(vitrine, 0o755)
    done = subprocess.run([sys.executable, HERE / "check.py", root, vitrine], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def main():
    style = pathlib.Path(sys.argv[1], "docs/style.md").read_text()
    failed = []
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory)
        (root / "docs").mkdir()
        (root / "docs/style.md").write_text(style)
        for name, content, line in CASES:
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
            code, output = run(root)
            if (line == 0) != (code == 0) or (line != 0 and f"{name}:{line}: `" not in output):
                failed.append(f"{name}: {content!r}: expected line {line}, got exit code {code}:\n{output}")
            file.unlink()
        for help_line, expected, shown in HELP:
            code, output = run(root, help_line)
            if code != expected or shown not in output:
                failed.append(f"help {help_line!r}: exit code {code}:\n{output}")
        (root / "docs/style.md").write_text("# Style\n")
        code, output = run(root)
        if code == 0:
            failed.append(f"a style without a table: exit code {code}:\n{output}")
    print("\n".join(failed) or f"{len(CASES) + len(HELP) + 1} cases")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
