#!/usr/bin/env python3
"""Checks that citations.py finds what it is there for, and nothing else.

usage: citations_test.py
"""
import pathlib
import subprocess
import sys
import tempfile

GOOD = {
    "docs/page.md": "# Page\n\n## A `part`\n\nSee [this](#a-part), [a](../src/abi/a.h), `src/abi/a.h`.\n",
    "src/abi/a.h": '/* docs/page.md, "A part". Not in a string: */\nconst char* p = "docs/none.md";\n',
    "src/abi/b.hpp": '// The layout (docs/page.md,\n// "A part") of abi/a.h (see a.h); fuzz/NAME.cpp, <linux/none.h>.\n',
    "tests/t.py": '"""docs/page.md, "Page" and "A part"."""\n# src/*/a.h\n',
}
BAD = {
    "src/abi/c.cpp": ('// docs/page.md, "A part" and\n// "Another part".\n', 'docs/page.md has no section "Another part"'),
    "src/abi/d.cpp": ("int a;  // src/abi/none.h\n", "src/abi/none.h does not exist"),
    "src/abi/e.cpp": ("// abi/none.h\n", "abi/none.h does not exist"),
    "src/abi/f.cpp": ("/* sdt.md 3.5 */\n", "sdt.md does not exist"),
    "src/abi/g.cpp": ("// docs/page.md 3.5\n", "docs/page.md: cite a section by its name"),
    "src/abi/h.cpp": ("// ../shared/" + "spec\n", "../shared/" + "spec is not in the repository"),
    "src/abi/i.cpp": ("// docs/page.md#nowhere\n", "docs/page.md has no section #nowhere"),
    "src/abi/j.hpp": ("// As in gone.hpp says.\n", "gone.hpp does not exist"),
    "src/CMakeLists.txt": ("add_test(a)  # tests/none.sh\n", "tests/none.sh does not exist"),
    "tests/u.py": ('"""docs/none.md."""\n', "docs/none.md does not exist"),
    "docs/link.md": ("[a](none.md)\n", "the link none.md leads nowhere"),
    "docs/anchor.md": ("[a](page.md#none)\n", "page.md has no section #none"),
    "docs/path.md": ("`src/none.cpp`\n", "src/none.cpp does not exist"),
}


def main():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in (GOOD | {name: text for name, (text, _) in BAD.items()}).items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        script = pathlib.Path(__file__).with_name("citations.py")
        run = subprocess.run([sys.executable, script, root], capture_output=True, text=True)
    expected = sorted(f"{name}:1: {offence}" for name, (_, offence) in BAD.items())
    if run.returncode != 1 or sorted(run.stdout.splitlines()) != expected:
        print(run.stdout, run.stderr, "expected:", *expected, sep="\n")
        return 1
    print(f"{len(expected)} bad citations found, {len(GOOD)} good files passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
