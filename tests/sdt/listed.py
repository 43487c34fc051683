#!/usr/bin/env python3
"""`vitrine probes` shows what our header wrote: every site, argument, name, type and semaphore, as a
second decoder (notes.py) reads them.

usage: listed.py SOURCE_ROOT VITRINE
"""
import json
import pathlib
import sys
import tempfile

from build import INCLUDE, SDT, cases, run
from notes import Elf

VITRINE = sys.argv[2]
TYPES = {0: "unknown", 2: {"4f": "float", "8f": "double"}, 3: "bool", 4: "pointer", 5: "string", 8: "string",
         9: "bytes"}


def type_of(kind, size, name):
    """What is shown for an argument of a typed note."""
    if kind == 6:
        return name or "enum"
    if kind == 1:
        return f"{'int' if size < 0 else 'uint'}{abs(size) * 8}"
    known = TYPES[kind]
    return known[f"{size}f"] if isinstance(known, dict) else known


def expected(path):
    elf = Elf(path)
    typed = {(t.pc, t.name): t for t in elf.typed()[0]}
    found = set()
    for probe in elf.probes():
        arguments = tuple(probe.arguments.split())
        sizes = [int(a.split("@")[0].rstrip("f")) for a in arguments]
        names, types = [], []
        for kind, name, type_name in typed[probe.pc, probe.name].arguments if (probe.pc, probe.name) in typed else []:
            types.append(type_of(kind, sizes[len(types)], type_name))
            names.append(name)
            if kind & 8:
                types.append(None)
                names.append(None)
        found.add((probe.provider, probe.name, probe.pc, probe.semaphore, arguments, tuple(names), tuple(types)))
    return found


def listed(folder, command, source):
    path = pathlib.Path(folder) / "subject"
    run(*command, INCLUDE, SDT / "types" / source, "-o", path)
    shown = set()
    for line in run(VITRINE, "probes", "--json", path).splitlines():
        probe = json.loads(line)
        for site in probe["sites"]:
            shown.add((probe["provider"], probe["name"], int(site["address"], 16), int(site["semaphore"], 16),
                       tuple(site["args"]), tuple(site.get("arg_names", [])), tuple(site.get("types", []))))
    wanted = expected(path)
    assert shown == wanted and len(shown) > 20, f"shown {shown - wanted}\nwanted {wanted - shown}"


def main():
    with tempfile.TemporaryDirectory() as folder:
        return cases(lambda: [
            (" ".join(command), listed, folder, command, source) for command, source in (
                (["gcc", "-O0"], "types.c"), (["clang", "-O2", "-fuse-ld=lld"], "types.c"),
                (["g++", "-O2"], "types.cpp"), (["clang++", "-O2", "-no-pie", "-fuse-ld=mold"], "types.cpp"),
                (["aarch64-linux-gnu-g++", "-O2", "-static"], "types.cpp"),
                (["i686-linux-gnu-gcc", "-O2"], "types.c"))])


if __name__ == "__main__":
    sys.exit(main())
