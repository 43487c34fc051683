#!/usr/bin/env python3
"""A traced program's fires are those that the program makes, with its arguments: every linker and kind of
output. bpftrace, at the addresses that the DOF names, sees the same ones.

usage: traced.py SOURCE_ROOT VITRINE
"""
import collections
import itertools
import pathlib
import re
import sys
import tempfile

from checks import is_stub
from dof import LinkedElf
from live import trace
from step import HERE, LINKERS, MACHINES, MODES, cases, header, link_step, linker, run

SUBJECT = HERE / "matrix"
NATIVE = MACHINES["x86_64"]


def build(folder, compiler, level, mode, ld):
    """The linked subject, and the command that runs it."""
    code, link = MODES[mode]
    objects = []
    for source in ("one", "two", "main"):
        objects.append(folder / f"{source}.o")
        run(compiler, level, "-std=gnu11", *code, f"-I{folder}", "-c", SUBJECT / f"{source}.c", "-o", objects[-1])
    probes = link_step(SUBJECT / "matrix.d", folder / "probes.o", objects)
    path = folder / "subject"
    run("gcc", *linker(folder, NATIVE, ld), *link, *objects, probes, "-o", path)
    if mode != "shared":
        return path, [path]
    run("gcc", SUBJECT / "host.c", "-o", folder / "host")
    return path, [folder / "host", path]


def said_fires(said):
    """The fires that the subject's lines tell of."""
    found = []
    for line in said.splitlines():
        if ":" not in line:
            continue
        probe, *arguments = line.split()
        found.append((probe, [int(a) if re.fullmatch(r"-?\d+", a) else a for a in arguments]))
    return found


def everything(folder, compiler, level, mode, ld):
    path, command = build(folder, compiler, level, mode, ld)
    assert "matrix:asked" not in run(*command), "enabled, although nobody traces"
    sites = {s.address: s for s in LinkedElf(path).sites()}
    events, said = trace(path, command, "matrix:*", "other:*")
    for event in events:
        site = sites[int(event["site"], 16)]
        assert event["probe"] == f"{site.provider}:{site.probe}", event
    shown = [(event["probe"], event["args"]) for event in events]
    fires = said_fires("\n".join(said))
    assert len(fires) >= 12 and any(p == "matrix:asked" for p, _ in fires), fires
    assert shown == fires, f"shown {shown}\nfired {fires}"
    assert "matrix:asked" not in run(*command), "still enabled after the trace"


def peer(folder, ld):
    """bpftrace at the same places, with the register of the first argument."""
    path, command = build(folder, "gcc", "-O2", "pie", ld)
    elf = LinkedElf(path)
    sites = [s for s in elf.sites() if not is_stub(s) and s.probe not in ("none", "words", "asked")]
    program = " ".join(f"uprobe:{path}:{elf.file_offset(s.address):#x} "
                       f'{{ @["{s.provider}:{s.probe}", (int32)reg("di")] = count(); }}' for s in sites)
    wanted = collections.Counter((p, a[0]) for p, a in said_fires(run(*command))
                                 if p not in ("matrix:none", "matrix:words", "matrix:asked"))
    # With symbols, bpftrace 0.17 would not go behind the start of a function; without, it takes what it is
    # given for an offset in the file.
    run("strip", path)
    said = run("bpftrace", "--unsafe", "-q", "-e", program, "-c", " ".join(map(str, command)))
    seen = collections.Counter({(probe, int(argument)): int(count) for probe, argument, count in
                                re.findall(r"@\[(\S+), (-?\d+)\]: (\d+)", said)})
    assert wanted and seen == wanted, f"bpftrace saw {seen}, fired {wanted}\n{said}"


def typedefs(folder, ld):
    """Arguments whose types are typedefs of the definition are read, and those after them."""
    case = HERE / "cases"
    header(case / "typedefs.d", folder)
    run("gcc", "-O2", f"-I{folder}", "-c", case / "typedefs.c", "-o", folder / "typedefs.o")
    probes = link_step(case / "typedefs.d", folder / "probes.o", [folder / "typedefs.o"])
    path = folder / "typedefs"
    run("gcc", *linker(folder, NATIVE, ld), folder / "typedefs.o", probes, "-o", path)
    events, _ = trace(path, [path], "types:*")
    shown = [(event["probe"], event["args"]) for event in events]
    assert shown == [("types:two", [-5, "hello"]),
                     ("types:many", ["text", "0x10", "0x20", 7, 65000, -2, 9])], shown


def main():
    with tempfile.TemporaryDirectory() as place:
        def programs():
            for (mode, ld), (compiler, level) in zip(
                    itertools.product(MODES, LINKERS),
                    itertools.cycle([("gcc", "-O2"), ("clang", "-O2"), ("gcc", "-O0"), ("clang", "-Os"), ("gcc", "-Os"),
                                     ("clang", "-O0"), ("gcc", "-O2")])):
                if (mode, ld) == ("static-pie", "gold"):
                    continue  # gold knows no --no-dynamic-linker: Usdt.matrix shows it
                yield (f"{compiler} {level} {mode} {ld}", everything, prepared(place), compiler, level, mode, ld)
            yield ("typedefs of the definition, bfd", typedefs, prepared(place), "bfd")
            for ld in LINKERS:
                yield (f"bpftrace, {ld}", peer, prepared(place), ld)

        return cases(programs)


def prepared(place):
    """A new folder with the subject's header."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=place))
    header(SUBJECT / "matrix.d", folder)
    return folder


if __name__ == "__main__":
    sys.exit(main())
