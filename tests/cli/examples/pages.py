#!/usr/bin/env python3
"""Every command has its manual page, and none is left over: with all options and examples that --help
has, without a complaint of mandoc, and pointing to pages that there are.

usage: pages.py VITRINE FOLDER
"""
import pathlib
import re
import subprocess
import sys

import command_tree


def rendered(page):
    text = subprocess.run(["mandoc", "-T", "ascii", "-O", "width=500", page], check=True,
                          capture_output=True, text=True).stdout
    return re.sub(r".\x08", "", text)  # bold


def wrong_with(vitrine, command, page, names):
    help_text = command_tree.text_of(vitrine, command.words)
    wrong = [f"--help is wider than 80 columns: {line}" for line in help_text.splitlines() if len(line) > 80]
    wrong += [f"--help has a mark of CLI11: {line}" for line in help_text.splitlines() if re.search(r"{(true|false)}", line)]
    if f"man {page.stem}" not in help_text and command.words:
        wrong.append("--help does not name its page")
    lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True)
    wrong += lint.stdout.splitlines() if lint.returncode else []
    text = rendered(page)
    for option in command.options:
        if command.words and option not in ("-h",) and not re.search(rf"(?m)^ +.*{re.escape(option)}\b", text):
            wrong.append(f"it does not have {option}")
    wrong += [f"it does not have the example {line}" for line in command.examples if line not in text]
    wrong += [f"it does not have the command {part}" for part in command.parts
              if not re.search(rf"(?m)^ +vitrine (\w+ )?{part}\b", text)]
    wrong += [f"it has no {section}" for section in ("SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "SEE ALSO")
              if section not in text]
    seen = re.findall(r"(vitrine[\w-]*)\(1\)", text)
    wrong += [f"it points to {name}(1), which is not there" for name in seen if name not in names]
    wrong += [f"it does not point to {page.stem}-{part}(1)" for part in command.parts
              if f"{page.stem}-{part}" not in seen]
    return wrong


def main():
    vitrine, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    commands = {"-".join(["vitrine", *one.words]): one for one in command_tree.commands(vitrine)}
    made = {page.stem for page in folder.iterdir()}
    wrong = [f"{name}: it has no page" for name in commands.keys() - made]
    wrong += [f"{name}: a page of no command" for name in made - commands.keys()]
    for name in commands.keys() & made:
        wrong += [f"{name}: {text}" for text in wrong_with(vitrine, commands[name], folder / f"{name}.1", made)]
    print("\n".join(wrong) or f"{len(commands)} commands, each with its page")
    # So that a change of how --help looks does not leave nothing to look at.
    return 1 if wrong or len(commands) < 12 else 0


if __name__ == "__main__":
    sys.exit(main())
