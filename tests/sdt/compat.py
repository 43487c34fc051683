#!/usr/bin/env python3
"""Programs written for systemtap's <sys/sdt.h> compile unchanged with ours, and offer the same probes.

usage: compat.py SOURCE_ROOT
"""
import itertools
import pathlib
import re
import shutil
import sys
import tempfile

from build import COMPAT, SDT, cases, run
from notes import Elf


def offered(path):
    """Every probe of a file: provider, name, sizes of its arguments, whether it has a semaphore."""
    return sorted((p.provider, p.name, re.findall(r"(?:^| )(-?\d+f?@|%rdi)", p.arguments), p.semaphore != 0)
                  for p in Elf(path).probes())


def program(folder, command):
    offers = []
    for include in ([], [COMPAT]):  # nothing: systemtap's, from /usr/include
        path = pathlib.Path(folder) / "program"
        assembled = pathlib.Path(folder) / "assembler.o"
        run(command[0].replace("++", "cc").replace("clangcc", "clang"), *include, "-c",
            SDT / "compat/assembler.S", "-o", assembled)
        said = run(*command, *include, "-Wall", "-Wextra", SDT / "compat/program.c", "-x", "none",
                   assembled, "-o", path)
        assert said == "", said
        run(path)
        offers.append(offered(path))
    theirs, ours = offers
    assert len(ours) >= 35, "hardly any probe"
    assert ours == theirs, f"with ours {[p for p in ours if p not in theirs]}, with systemtap's " \
                           f"{[p for p in theirs if p not in ours]}"


def generated(folder, compiler, linker):
    folder = pathlib.Path(folder)
    shutil.copy(SDT / "compat/shop.d", folder)
    run("dtrace", "-h", "-s", "shop.d", cwd=folder)
    offers = []
    for include in ([], [COMPAT]):
        path = folder / "generated"
        run(compiler, "-O2", *include, f"-I{folder}", "-c", SDT / "compat/dtrace.c", "-o", "user.o", cwd=folder)
        run("dtrace", "-G", "-s", "shop.d", "-o", "shop.o", "user.o", cwd=folder)
        run(compiler, f"-fuse-ld={linker}", "user.o", "shop.o", "-o", path, cwd=folder)
        run(path)
        offers.append(offered(path))
    theirs, ours = offers
    assert ours == theirs and len(ours) == 2 and all(p[3] for p in ours), f"{ours} and {theirs}"


def main():
    with tempfile.TemporaryDirectory() as folder:
        def programs():
            for compiler, level, semaphores in itertools.product(
                    (["gcc"], ["gcc", "-std=c99"], ["clang"], ["g++", "-std=c++11"], ["g++", "-std=c++20"],
                     ["clang++", "-std=c++11"]), ("-O0", "-O2"), ([], ["-DWITH_SEMAPHORES"])):
                command = [*compiler, level, *semaphores]
                if "++" in compiler[0]:
                    command += ["-x", "c++"]
                yield (" ".join(command), program, folder, command)

        def generators():
            for compiler, linker in itertools.product(("gcc", "clang"), ("bfd", "gold", "lld", "mold")):
                yield (f"dtrace -h and -G, {compiler}, {linker}", generated, folder, compiler, linker)

        return cases(programs, generators)


if __name__ == "__main__":
    sys.exit(main())
