#!/usr/bin/env python3
"""Asks bash, zsh and fish what they offer, with the scripts that the command prints; and looks
whether each command and option that --help tells of is offered.

usage: run.py VITRINE
"""
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "examples"))
import command_tree  # noqa: E402

VITRINE = sys.argv[1]
FAILED = []

# A line, what must be offered at its end, and what must not.
CASES = [
    ("vitrine ", ["ps", "labels", "trace", "usdt"], ["header", "--json"]),
    ("vitrine la", ["labels"], ["ps"]),
    ("vitrine labels --m", ["--mode", "--max-labels", "--may-stop"], ["--json"]),
    ("vitrine labels --mode ", ["snapshot", "ebpf", "ptrace"], ["labels"]),
    ("vitrine usdt ", ["header", "link", "dump"], ["labels"]),
    ("vitrine usdt link --", ["--strict", "--registration"], ["--mode"]),
    ("vitrine labels 1", ["1"], ["snapshot"]),
]


def bash(script, line):
    words = line.split(" ")
    ask = "source {}; COMP_WORDS=({}); COMP_CWORD={}; compopt() {{ :; }}; _vitrine; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    words = " ".join(f"'{word}'" for word in words)
    done = subprocess.run(["bash", "-euc", ask.format(script, words, len(line.split(' ')) - 1)],
                          capture_output=True, text=True, check=True)
    return done.stdout.split()


def fish(script, line):
    done = subprocess.run(["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"],
                          capture_output=True, text=True, check=True)
    if done.stderr:
        FAILED.append(f"fish: {done.stderr[:200]}")
    return [offer.split("\t")[0] for offer in done.stdout.splitlines()]


def zsh(script, line):
    done = subprocess.run(["zsh", "-f", HERE / "complete.zsh", script, line],
                          capture_output=True, text=True, check=True, timeout=60)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", " ", done.stdout)
    return re.findall(r"[\w-]+", shown)


def zsh_text(script, line):
    """What the function of a command has in it: to ask zsh takes seconds a line."""
    name = "_".join(["", *line.split()[:-1 if line.endswith("-") else None]])
    body = re.search(rf"(?m)^{name}\(\) \{{\n(.*?)^\}}", script.read_text(), re.DOTALL)
    return re.findall(r"'(?:\*(-[\w-]+)\[|([\w-]+):)", body.group(1)) if body else []


def all_cases():
    """For each command: its options, and the commands in it."""
    for command in command_tree.commands(VITRINE):
        line = " ".join(["vitrine", *command.words, ""])
        yield line + "--", [name for name in command.options if name.startswith("--")]
        if command.parts:
            yield line, command.parts


def main():
    with tempfile.TemporaryDirectory() as work:
        for shell, offers in (("bash", bash), ("fish", fish), ("zsh", zsh)):
            script = pathlib.Path(work, f"vitrine.{shell}")
            script.write_text(subprocess.run([VITRINE, "--completion", shell], check=True,
                                             capture_output=True, text=True).stdout)
            for line, wanted, unwanted in CASES:
                got = offers(script, line)
                missing = [word for word in wanted if word not in got]
                # A terminal shows the line itself, too.
                wrong = [] if shell == "zsh" else [word for word in unwanted if word in got]
                if missing or wrong:
                    FAILED.append(f"{shell}: '{line}': missing {missing}, unwanted {wrong}, got {got[:40]}")
            for line, wanted in all_cases():
                if shell == "zsh":
                    got = ["".join(pair) for pair in zsh_text(script, line)]
                else:
                    got = offers(script, line)
                missing = [word for word in wanted if word not in got]
                if missing or not wanted:
                    FAILED.append(f"{shell}: '{line}': missing {missing} of {wanted}, got {got[:60]}")
    refused = subprocess.run([VITRINE, "--completion", "tcsh"], capture_output=True, text=True)
    if refused.returncode != 2 or "tcsh" not in refused.stderr:
        FAILED.append(f"an unknown shell: exit {refused.returncode}, {refused.stderr}")
    print("\n".join(FAILED) or f"{3 * len(CASES)} lines completed as they should be")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
