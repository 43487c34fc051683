"""Every hostile target: the tricks of hostile_target, and what tests of other folders have."""
import os
import re
import subprocess
from dataclasses import dataclass

from forged import FORGERIES


@dataclass
class Trick:
    name: str
    argv: list
    # Why it may be found so after it was looked at: "stopped" (and must be), "held" by its own
    # tracer (and must be), "traced" by another, or "" (it must run, by itself).
    state: str = ""
    counts: bool = True  # tells its progress
    fresh: bool = False  # ends by itself: one for each command
    races: str = ""  # the pattern of its labels, of which none may be torn
    says: str = ""  # what some command must say, as something that it wants does not come
    busy: bool = False  # takes a CPU or more for itself: not one of many at once
    forgery: str = ""  # the forged file that it maps
    memory: int = 256 << 20  # bytes that no command may have more than
    withheld: bool = False  # whoever reads its maps or memory waits: the test does not
    also: dict = None  # commands that are tried besides, as of command.py
    long: bool = False  # takes long: of Hostile.long alone


STATES = {"stopped": "stopped", "held-by-tracer": "held", "stops-and-continues": "any",
          "frozen-control-group": "frozen", "traced": "traced", "traced-by-its-child": "traced", "exec-never-ends": "traced"}

# Whose labels may be of another process, or of no moment: racing_labels.py.
MIXES = {"thread-ids-reused": "owner"}

# Commands that look for processes by what they are called read the arguments of all.
BY_NAME = {"by name": ("profile --name no-such-process --duration 100ms -o -", 0.1)}

# What takes longest, and is of kinds that others are of, too.
LONG = {"modules-wild", "label-shared-by-many", "modules-endless", "names-stall", "library-reads-never-end",
        "context-payload-never-comes", "label-flood", "threads-many", "linker-state-forged"}

# Of the forged files, those of every change; Hostile.few has more.
QUICK_FORGERIES = {"symbols-overlap", "typed-notes-mutated", "frame-table-wild"}

# By their names: what runs at full speed, or has commands do so.
BUSY = re.compile("^label-(flood|garbage|slots|unmapped|moved|protected|page-comes)|flip|changes?$|"
                  "storm|come-and-go|comes-and-goes|rewritten|reloaded|growing|seccomp-strict|"
                  "threads-many|ids-reused|shared-by-many|^modules-wild|exits-while-read|leader-gone|restless|updating|^racing")


DONE, FAILED, NOT_FOUND = 0, 1, 4  # src/cli/shell/report.hpp
# With which exit codes a command may end, by patterns of the trick and of the command: the first row
# that matches both counts. Wrong usage (2) is never among them: then nothing was tested.
EXITS = [
    # The target ends, executes another program, or has no thread that could be asked.
    ("exits|exec|leader|come-and-go|comes-and-goes", ".", (DONE, FAILED, NOT_FOUND)),
    # The thread whose mappings check reads may be one of those that have just ended.
    ("ids-reused", "^check$", (DONE, FAILED, NOT_FOUND)),
    # Programs of other tests have no probes, and a program that cannot be read shows none.
    ("^racing |^hostile |^musl ring |^program-served-by-nobody$", "^trace$", (DONE, FAILED, NOT_FOUND)),
    ("^arguments-never-come$", "^by name$", (NOT_FOUND,)),
    # Rules that it breaks; a context that it does not publish, or that makes no sense; labels that
    # it does not publish, or that do not come.
    (".", "^(check|context|context watched|labels .*)$", (DONE, FAILED)),
    (".", ".", (DONE,)),
]


def exit_codes(trick, command):
    """With which exit codes a command may end; `trick`: None: it looks at all of them."""
    name = trick.name if trick else "all"
    return next(codes for tricks, commands, codes in EXITS
                if re.search(tricks, name) and re.search(commands, command))


def catalogue(programs, writers):
    """`programs`, `writers`: the directories in which they were built."""
    own = os.path.join(programs, "hostile_target")
    names = subprocess.run([own], check=True, capture_output=True, text=True).stdout.split()
    tricks = [Trick(name, [own, name], STATES.get(name, ""), fresh=name == "exits-while-read")
              for name in names]
    for pattern in ("edit", "swap", "ring", "record"):
        tricks.append(Trick(f"racing {pattern}", [os.path.join(writers, "racing"), pattern, "0", "2"],
                            counts=False, races=pattern))
    tricks.append(Trick("hostile labels", [os.path.join(programs, "hostile_writer")], counts=False))
    tricks.append(Trick("musl ring of a million", [os.path.join(programs, "hostile_ring")], counts=False))
    for name in ("4-gib", "prot-none", "frozen", "restless", "updating", "two", "many"):
        tricks.append(Trick(f"hostile context {name}", [os.path.join(programs, "hostile_context"), name],
                            counts=False))
    tricks = [trick for trick in tricks if trick.name != "forged-file"]
    for name in FORGERIES:
        tricks.append(Trick(f"forged {name}", [own, "forged-file"], forgery=name))
    for trick in tricks:
        trick.races = MIXES.get(trick.name, trick.races)
        if re.search("^(label|context|module).*never-come", trick.name):
            trick.says = "is blocked by"
        if trick.name.endswith(("served-by-nobody", "reads-never-end")):
            trick.says = "file system does not respond"
        if trick.name == "exec-never-ends":
            trick.says = "executing another program"
        if trick.name.startswith("musl ring"):
            trick.says = "the rest of the list was not read"
        if trick.name == "exec-closes-served":
            trick.withheld = True
            trick.says = "the kernel withholds it"
        trick.also = BY_NAME if trick.name == "arguments-never-come" else {}
        if trick.name in ("forged xz-bomb-of-symbols", "forged lines-endless"):
            trick.memory = 512 << 20  # a worker has 2.8 million symbols of one file, or 4 million lines
        trick.long = trick.name in LONG or (trick.forgery != "" and trick.forgery not in QUICK_FORGERIES)
        trick.busy = bool(BUSY.search(trick.name))
    return tricks
