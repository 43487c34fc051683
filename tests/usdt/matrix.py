#!/usr/bin/env python3
"""Providers through every machine, compiler, optimisation, kind of output and linker.

usage: matrix.py SOURCE_ROOT VITRINE [MACHINE…]

In each linked file every site, as read from the file by two decoders, is at the label that the source
puts beside its macro, and there is no other; nothing of the DOF is relocated at load time or can be
written; nothing of ours is exported; the stack is not executable. Each program says the same as the one
whose probes are disabled. Where a linker cannot make or the machine not run a kind of output, a program
without probes shows so, and the combination is named.
"""
import collections
import concurrent.futures
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile

from checks import sound, wrong_places
from dof import LinkedElf
from folder import shown
from step import HERE, LINKERS, MACHINES, MODES, Failure, header, link_step, linker, run

COMPILERS = ("gcc", "clang")
LEVELS = ("-O0", "-O2", "-Os")
SUBJECT = HERE / "matrix"
WARNINGS = ["-std=gnu11", "-Wall", "-Wextra", "-Werror"]
LEAST_LINKS = 105  # a machine, of 120: where all the tools are, fewer means that something broke
DISABLED = ["-D_DTRACE_VERSION=0"]


def compile_objects(folder, machine, compiler, level, code, *more):
    """Compiles one.c, two.c and main.c; their paths."""
    name = "_".join([machine.name, compiler, level, *code, *more]).replace("/", "")
    folder = folder / name
    folder.mkdir()
    objects = []
    for source in ("one", "two", "main"):
        target = folder / f"{source}.o"
        run(*machine.compiler(compiler), *WARNINGS, level, *code, *more, f"-I{folder.parent}", "-c",
            SUBJECT / f"{source}.c", "-o", target)
        objects.append(target)
    return objects


def processed(folder, machine, compiler, level, code):
    """The objects, and the probe object."""
    objects = compile_objects(folder, machine, compiler, level, code)
    return [*objects, link_step(SUBJECT / "matrix.d", objects[0].parent / "probes.o", objects)]


def linked(folder, machine, mode, name, objects, path):
    run(*machine.compiler("gcc"), *linker(folder, machine, name), *MODES[mode][1], *objects, "-o", path)


def said(folder, machine, mode, path):
    """What a linked subject prints."""
    if mode == "shared":
        return run(*machine.runner(mode), folder / f"host-{machine.name}", path)
    return run(*machine.runner(mode), path)


def check(path, machine):
    """Yields what is wrong with a linked file."""
    elf = LinkedElf(path)
    sites = elf.sites()
    yield from wrong_places(elf, machine, elf.labels(), sites)
    theirs = set(shown(path))
    ours = {(s.provider, s.probe, s.address) for s in sites}
    if theirs != ours:
        yield f"vitrine shows {theirs - ours}, and not {ours - theirs}"
    yield from sound(elf)


def control(folder, machine, mode, name, objects):
    """Whether the machine's tools do a kind of output, without probes: None, or why not; and what it says."""
    path = folder / f"control-{machine.name}-{mode}-{name}"
    try:
        linked(folder, machine, mode, name, objects, path)
        return None, said(folder, machine, mode, path)
    except (Failure, OSError) as problem:
        lines = [line for line in str(problem).splitlines()[1:] if line.strip()]
        return (lines[0].replace(str(folder) + "/", "") if lines else str(problem).rsplit(": ", 1)[-1].strip()), None


def combination(folder, machine, compiler, level, mode, name, objects, expected):
    path = folder / f"{machine.name}-{compiler}{level}-{mode}-{name}"
    try:
        linked(folder, machine, mode, name, objects, path)
        problems = list(check(path, machine))
        told = said(folder, machine, mode, path)
        if told != expected:
            problems.append(f"says {told!r}, and without probes {expected!r}")
        path.unlink()
        return problems
    except (Failure, AssertionError, subprocess.TimeoutExpired) as problem:
        return [str(problem)[:3000]]


def main():
    failed, links, unsupported = 0, 0, collections.Counter()
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        folder = pathlib.Path(folder)
        header(SUBJECT / "matrix.d", folder)
        machines = [MACHINES[name] for name in sys.argv[3:] or MACHINES]
        hosts = [pool.submit(run, *m.compiler("gcc"), SUBJECT / "host.c", "-o", folder / f"host-{m.name}", "-ldl")
                 for m in machines]
        plain = {(m.name, mode): pool.submit(compile_objects, folder, m, "gcc", "-O1", MODES[mode][0], *DISABLED,
                                             f"-DMODE_{mode.replace('-', '_')}")
                 for m in machines for mode in MODES}
        made = {}
        for machine, compiler, level, (code, _) in itertools.product(machines, COMPILERS, LEVELS, MODES.values()):
            key = (machine.name, compiler, level, *code)
            if key not in made:
                made[key] = pool.submit(processed, folder, machine, compiler, level, code)
        for host in hosts:
            host.result()
        controls = {(m.name, mode, name): pool.submit(control, folder, m, mode, name, plain[m.name, mode].result())
                    for m in machines for mode in MODES for name in LINKERS}
        running = []
        for machine, compiler, level, mode, name in itertools.product(machines, COMPILERS, LEVELS, MODES, LINKERS):
            reason, expected = controls[machine.name, mode, name].result()
            if reason is not None:
                unsupported[machine.name, mode, name, reason] += 1
                continue
            try:
                objects = made[(machine.name, compiler, level, *MODES[mode][0])].result()
            except (Failure, subprocess.TimeoutExpired) as problem:
                print(f"FAILED: {machine.name} {compiler} {level} {mode}: {problem}")
                failed += 1
                continue
            running.append(((machine.name, compiler, level, mode, name),
                            pool.submit(combination, folder, machine, compiler, level, mode, name, objects, expected)))
        for key, done in running:
            links += 1
            for problem in done.result():
                failed += 1
                print(f"FAILED: {' '.join(key)}: {problem}")
    for (machine, mode, name, reason), times in sorted(unsupported.items()):
        print(f"not here, {times} times: {machine} {mode} {name}: {reason}")
    print(f"{links} linked files, {failed} problems")
    return 1 if failed or links < LEAST_LINKS * len(machines) else 0


if __name__ == "__main__":
    sys.exit(main())
