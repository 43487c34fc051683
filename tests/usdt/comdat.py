#!/usr/bin/env python3
"""Inline functions, templates, lambdas and constructors with probes, in files that are compiled
differently: of each function the linker keeps one copy, and the records of the others must not name
a place in it (docs/formats/object-step.md, "Aliases").

usage: comdat.py SOURCE_ROOT VITRINE

All sites are enabled at once; the program ends as without, every site of a kept copy fires, each fire is
one that the program made, and objdump has an instruction at every site.
"""
import collections
import concurrent.futures
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from checks import is_stub, sound, wrong_places
from dof import LinkedElf
from live import trace
from step import HERE, LINKERS, MACHINES, MODES, VITRINE, cases, header, link_step, linker, run

SOURCES = HERE / "comdat"
LEVELS = {"one": "-O0", "two": "-O2", "three": "-Os", "main": "-O1"}
STEPS = {"any": (), "lld": ("--lld",)}  # what the step is told of the linker
ORDERS = (["one", "two", "three"], ["three", "two", "one"])
# The deleting destructor: nothing here is deleted.
NEVER_CALLED = re.compile(r"D0Ev")


def objects(folder, machine, compiler, code):
    folder = folder / "_".join([machine.name, compiler, *code])
    folder.mkdir()
    made = {}
    for source, level in LEVELS.items():
        made[source] = folder / f"{source}.o"
        run(*machine.compiler(compiler), "-std=c++17", "-Wall", "-Wextra", "-Werror", level, *code,
            f"-I{folder.parent}", "-c", SOURCES / f"{source}.cpp", "-o", made[source])
    return {name: processed(folder, made, name, options) for name, options in STEPS.items()}


def processed(folder, made, name, options):
    """Copies of objects, as the step rewrites them for a linker, and its probe object."""
    folder = folder / name
    folder.mkdir()
    copies = {source: pathlib.Path(shutil.copy(path, folder)) for source, path in made.items()}
    copies["probes"] = link_step(SOURCES / "comdat.d", folder / "probes.o", list(copies.values()), *options)
    return copies


def instructions(elf, machine, sites):
    """Where objdump sees instructions begin in the functions with sites: of a static program, not in all of the C library."""
    symbols = elf.symbols()
    start = min(symbols[s.function][0] for s in sites if s.function in symbols)
    text = run(f"{machine.prefix}objdump", "-d", "--no-show-raw-insn", f"--start-address={start}",
               f"--stop-address={max(s.address for s in sites) + 16}", elf.path)
    return {int(at, 16) for at in re.findall(r"^ *([0-9a-f]+):\t", text, re.M)}


def fires(command):
    """How often the program says that it fired."""
    return int(re.fullmatch(r"sum -?\d+, (\d+) fires\n", run(*command))[1])


def traced(path, elf, command, count, all_called):
    """Enables all sites; checks each fire and each site."""
    said, _ = trace(path, command, "comdat:*")
    assert len(said) == count, f"{len(said)} fires shown, {count} made"
    by_probe = collections.Counter(e["probe"] for e in said)
    assert len(by_probe) == 7, f"only {dict(by_probe)}"
    sites = {s.address: s for s in elf.sites()}
    fired = collections.Counter(int(e["site"], 16) for e in said)
    assert set(fired) <= set(sites), f"fires at {[hex(a) for a in set(fired) - set(sites)]}"
    silent = [s for a, s in sites.items() if a not in fired and not is_stub(s)
              and not NEVER_CALLED.search(s.function)]
    # Of the copies made without optimisation all are called; others may be left behind, inlined everywhere.
    assert not silent or not all_called, f"never fired: {silent}"
    for event in said:
        site = sites[int(event["site"], 16)]
        assert event["probe"] == f"comdat:{site.probe}", f"{event} at {site}"


def one(folder, machine, compiler, mode, name, order, made):
    path = folder / "-".join([machine.name, compiler, mode, name, *order])
    run(*machine.compiler("g++"), *linker(folder, machine, name), *MODES[mode][1], made["main"],
        *(made[o] for o in order), made["probes"], "-o", path)
    elf = LinkedElf(path)
    sites = elf.sites()
    problems = wrong_places(elf, machine, elf.labels(), sites) + list(sound(elf))
    starts = instructions(elf, machine, sites)
    problems += [f"{s} is in the middle of an instruction" for s in sites if s.address not in starts]
    assert not problems, "\n".join(problems)
    # The notes of dropped copies are no sites outside of the code.
    verdict = subprocess.run([VITRINE, "check", path], capture_output=True, text=True)
    assert verdict.returncode == 0, verdict.stdout + verdict.stderr
    command = [*machine.runner(mode), path]
    if mode == "shared":
        command = [*machine.runner(mode), folder / f"host-{machine.name}", path]
    count = fires(command)
    if machine.name == "x86_64":
        traced(path, elf, command, count, order == ORDERS[0])
    path.unlink()


def main():
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        folder = pathlib.Path(folder)
        header(SOURCES / "comdat.d", folder)
        machines = [MACHINES["x86_64"], MACHINES["aarch64"]]
        made = {}
        for machine, compiler, (code, _) in itertools.product(machines, ("g++", "clang++"), MODES.values()):
            key = (machine.name, compiler, *code)
            if key not in made:
                made[key] = pool.submit(objects, folder, machine, compiler, code)
        for machine in machines:
            run(*machine.compiler("gcc"), HERE / "matrix/host.c", "-o", folder / f"host-{machine.name}")
        running = []
        for machine, compiler, mode, name, order in itertools.product(
                machines, ("g++", "clang++"), MODES, LINKERS, ORDERS):
            if name == "gold" and mode == "static-pie":
                continue  # gold knows no --no-dynamic-linker: Usdt.matrix shows it
            if (machine.name, name, mode) == ("aarch64", "gold", "static"):
                # gold writes no .eh_frame_hdr there: without probes, too, the program dies of its first exception.
                print(f"not here: {machine.name} {compiler} {mode} {name}")
                continue
            if order != ORDERS[0] and mode not in ("pie", "shared"):
                continue
            running.append((f"{machine.name} {compiler} {mode} {name} {' '.join(order)}",
                            pool.submit(one, folder, machine, compiler, mode, name, order,
                                        made[(machine.name, compiler, *MODES[mode][0])].result()
                                        ["lld" if name == "lld" else "any"])))
        return cases(lambda: [(name, done.result) for name, done in running])


if __name__ == "__main__":
    sys.exit(main())
