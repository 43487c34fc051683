#!/usr/bin/env python3
"""Every command line of ours in the documents is one that the command takes: its options exist.

usage: documents.py VITRINE FILE.md…
"""
import pathlib
import re
import shlex
import sys

import command_tree

END = {"|", "||", "&&", ";", ">", "&"}


def lines_of(text):
    """The command lines in fenced blocks, as they are typed: with or without a prompt."""
    for block in re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            found = re.match(r"(?:\$ |# )?(?:sudo )?(vitrine(?= |$).*)", line)
            if found:
                yield found.group(1)


def wrong_with(line, tree):
    words = shlex.split(line, comments=True)
    # Where no comment sign is, two blanks or more part the line from what it does.
    if "#" not in line:
        words = shlex.split(re.split(r"\s{3,}", line)[0])
    words = words[1:next((i for i, word in enumerate(words) if word in END), len(words))]
    path = ()
    while words and path + (words[0],) in tree:
        path += (words.pop(0),)
    command = tree[path]
    if not path and not words:
        return ["it has no command"]
    if not command.runs_alone and not words[0].startswith("-"):
        return [f"there is no command {words[0]}"]
    wrong = []
    skip = False
    for word in words:
        if word == "--":
            break
        if skip or not re.match(r"-[^\d]", word):
            skip = False
            continue
        name = word.split("=")[0]
        if not name.startswith("--") and name[:2] in command.options:
            name, skip = name[:2], command.options[name[:2]] and len(word) == 2
        elif name in command.options:
            skip = command.options[name] and "=" not in word
        else:
            wrong.append(f"{' '.join(path)} has no option {name}")
    return wrong


def main():
    tree = {tuple(command.words): command for command in command_tree.commands(sys.argv[1])}
    seen, failures = 0, 0
    for file in sys.argv[2:]:
        for line in lines_of(pathlib.Path(file).read_text()):
            seen += 1
            for wrong in wrong_with(line, tree):
                failures += 1
                print(f"FAILED: {file}: {line}\n  {wrong}")
    print(f"{seen} lines in {len(sys.argv) - 2} files, {failures} failures")
    # So that a change of how documents are written does not leave nothing to look at.
    return 1 if failures or seen < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
