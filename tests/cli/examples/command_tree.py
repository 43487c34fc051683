"""The commands, their options and their examples, as `--help` tells them to a user."""
import dataclasses
import re
import subprocess


@dataclasses.dataclass
class Command:
    words: list  # ["usdt", "header"]; of vitrine itself none
    options: dict  # by name with its dashes: whether the next word is its value
    examples: list  # lines as they are typed
    parts: list  # names of the commands within it
    runs_alone: bool  # also without one of these


def section(text, title):
    """The lines below a title that begin with blanks; those that were folded whole."""
    text = re.sub(r" \\\n +", " ", text)
    found = re.search(rf"^{title}:\n((?:[ ]+.*\n|\n(?=  ))*)", text, re.MULTILINE)
    return found.group(1).splitlines() if found else []


def text_of(vitrine, words):
    return subprocess.run([vitrine, *words, "--help"], check=True, capture_output=True, text=True).stdout


def read(vitrine, words=()):
    text = text_of(vitrine, words)
    options = {}
    for line in section(text, "Options"):
        head = re.match(r"  (-\S.*)", line)
        if not head:
            continue
        names = re.findall(r"(?:^|[ ,])(-[\w]\b|--[\w-]+)", head.group(1).split("  ")[0])
        value = re.search(r"[\w-] (?=[^\s-])", head.group(1).split("  ")[0]) is not None
        options.update(dict.fromkeys(names, value))
    return Command(
        words=list(words), options=options,
        examples=[line[2:] for line in section(text, "Examples") if re.match(r"  \S", line)],
        parts=[line.split()[0] for line in section(text, "Subcommands") if re.match(r"  \S", line)],
        runs_alone="[SUBCOMMAND]" in text or "SUBCOMMAND" not in text)


def commands(vitrine, words=()):
    """All of them, `vitrine` itself first."""
    here = read(vitrine, words)
    return [here] + [one for part in here.parts for one in commands(vitrine, (*words, part))]
