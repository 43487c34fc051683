#!/usr/bin/env python3
"""Probes through every compiler, language, optimisation, kind of output, linker and section collector.

usage: matrix.py SOURCE_ROOT

Each output links and (where it is a program) runs; every copy of a probe's instructions that was kept
has exactly one v3 note and, where it is typed, exactly one typed note; semaphores and the base section
are there whatever was collected. Prints what each linker did with the notes of collected functions.
"""
import collections
import concurrent.futures
import itertools
import pathlib
import re
import subprocess
import sys
import tempfile

from notes import Elf

ROOT = pathlib.Path(sys.argv[1])
HERE = ROOT / "tests/sdt/matrix"
# What a probe leaves in the code, and nothing else does: no padding, and no byte that makes the one
# before a longer nop.
INSTRUCTIONS = re.compile(rb"(?<!\x66)\x90\x66\x2e\x0f\x1f\x84\0\0\0\0\0")
NO_PADDING = ["-falign-functions=1", "-falign-loops=1", "-falign-jumps=1", "-falign-labels=1"]
COMPILERS = {("gcc", "c"): "gcc", ("gcc", "c++"): "g++", ("clang", "c"): "clang", ("clang", "c++"): "clang++"}
LEVELS = {"-O0": ["-O0"], "-O2": ["-O2"], "-O3": ["-O3"], "-Os": ["-Os"], "lto": ["-O2", "-flto"]}
OUTPUTS = {
    "pie": (["-fPIE"], ["-pie"]),
    "no-pie": (["-fno-pie"], ["-no-pie"]),
    "shared": (["-fPIC"], ["-shared"]),
    "static": (["-fno-pie"], ["-static"]),
}
LINKERS = ["bfd", "gold", "lld", "mold"]
SECTIONS = ["-ffunction-sections", "-fdata-sections"]
COLLECT = {
    "": ([], []),
    "gc": (SECTIONS, ["-Wl,--gc-sections"]),
    "gc-keep": ([*SECTIONS, "-DVITRINE_SDT_KEEP=1"], ["-Wl,--gc-sections"]),
}
SHARED = {"shared", "shared_too"}


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr).strip()


def objects(work, compiler, language, level, output, collect):
    """Compiles both files. Returns their paths."""
    made = []
    flags = LEVELS[level] + OUTPUTS[output][0] + COLLECT[collect][0]
    folder = work / "_".join([compiler, language, *flags]).replace("/", "")
    folder.mkdir(exist_ok=True)
    for name in ("one", "two"):
        target = folder / f"{name}.o"
        # clang 14 knows -falign-functions alone of them, and pads no loop or jump at these levels.
        padding = NO_PADDING if compiler == "gcc" else NO_PADDING[:1]
        command = [COMPILERS[compiler, language], "-x", language, *flags, *padding, "-Wall", "-Wextra",
                   "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror", f"-I{ROOT}/include", "-c",
                   str(HERE / f"{name}.c"), "-o", str(target)]
        status, said = run(command)
        if status:
            return None, f"{' '.join(command)}\n{said}"
        made.append(str(target))
    return made, None


def supported(compiler, level, collect, linker):
    if level == "lto" and compiler == "gcc" and linker == "lld":
        return False  # lld reads LLVM's bitcode alone
    if collect == "gc-keep":  # what gold needs; the others do not differ by level there
        return linker == "gold" or level in ("-O2", "lto")
    return not (collect == "gc" and linker == "gold")


def check(path, collect, linker, language, level):
    """Yields what is wrong, and what became of a function that nobody calls."""
    elf = Elf(path)
    probes = elf.probes()
    text = [s for s in elf.sections if s.flags & 4 and s.kind == 1]
    code = {s.address + m.start() for s in text for m in INSTRUCTIONS.finditer(elf.bytes(s))}
    live = [p for p in probes if any(s.address <= p.pc < s.address + s.size for s in text)]
    dead = [p for p in probes if p not in live]
    told = collections.Counter(p.pc for p in live)
    for pc in code - set(told):
        yield f"the probe at {pc:#x} has no note"
    for pc in set(told) - code:
        yield f"the note of {pc:#x} names no probe"
    for pc, times in told.items():
        if times != 1:
            yield f"the probe at {pc:#x} has {times} notes"
    if dead and collect != "gc":
        yield f"notes of nothing: {[(p.name, hex(p.pc)) for p in dead]}"
    if collect == "gc-keep" and level != "lto" and "uncalled" not in {p.name for p in live}:
        yield "VITRINE_SDT_KEEP did not keep a function"
    wanted = {"lazy", "loop", "shared", "shared_too"} | ({"template_member"} if language == "c++" else set())
    for name in wanted - {p.name for p in live}:
        yield f"no probe {name}"

    semaphores = elf.all(".probes")
    if len(semaphores) != 1 or semaphores[0].kind != 1 or semaphores[0].flags & 3 != 3:
        yield f".probes is not in the file and writable: {semaphores}"
        return
    if semaphores[0].address % 4096:
        yield f".probes is at {semaphores[0].address:#x}: it does not begin a page"
    if semaphores[0].size >= 4096:
        yield f".probes has {semaphores[0].size} bytes: its padding is more than what is before it"
    room = range(semaphores[0].address, semaphores[0].address + semaphores[0].size, 2)
    by_name = {}
    for probe in live:
        if probe.semaphore not in room:
            yield f"{probe.name}: semaphore {probe.semaphore:#x} is not in .probes"
        by_name.setdefault(probe.name, set()).add(probe.semaphore)
    for name, addresses in by_name.items():
        if len(addresses) != 1:
            yield f"{name} has {len(addresses)} semaphores"
    if by_name.get("shared") != by_name.get("shared_too"):
        yield "the shared semaphore is two"
    own = [next(iter(a)) for n, a in by_name.items() if n not in SHARED]
    if len(set(own)) != len(own):
        yield "probes share a semaphore that should have one each"
    for name in elf.symbols(".dynsym", ".dynstr"):
        if name.endswith(("_semaphore", "_shared")):
            yield f"{name} can be seen from outside"

    base = elf.all(".stapsdt.base")
    if len(base) != 1 or any(p.base != base[0].address for p in live):
        yield f"the base section {base} is not what the notes say: {sorted({hex(p.base) for p in live})}"

    typed, enumerators = elf.typed()
    names = {"lazy", "template_member", "shared"}
    described = collections.Counter((t.pc, t.name) for t in typed if t.pc in code)
    if described != collections.Counter((p.pc, p.name) for p in live if p.name in names):
        yield f"typed notes {described} beside {[(p.pc, p.name) for p in live]}"
    if any(t.pc not in code for t in typed) and collect != "gc":
        yield "typed notes of nothing"
    for t in typed:
        expected = {
            "lazy": [(1, "n", ""), (1, "twice", "")],
            "template_member": [(1, "amount", ""), (1, "total", "")],
            "shared": [(6, "colour", "colour"), (5, "text", ""), (1, "n", "")],
        }[t.name]
        if t.arguments != expected:
            yield f"{t.name} is described as {t.arguments}"
    if enumerators != {"colour": {0: "RED", 5: "GREEN"}}:
        yield f"enumerators: {enumerators}"
    if collect == "gc":
        yield ("tombstones", linker, tuple(sorted({(p.name, hex(p.pc)) for p in dead})),
               "uncalled" in {p.name for p in live})


def link(work, number, key, made):
    compiler, language, level, output, collect, linker = key
    path = work / f"linked{number}"
    command = [COMPILERS[compiler, language], f"-fuse-ld={linker}", *LEVELS[level], *OUTPUTS[output][1],
               *COLLECT[collect][1], *made, "-o", str(path)]
    status, said = run(command)
    if status or "warning" in said:
        return key, [f"does not link: {said[:2000]}"]
    problems = list(check(path, collect, linker, language, level))
    if output != "shared":
        status, said = run([str(path)])
        if status:
            problems.append(f"ends with {status}: {said}")
    path.unlink()
    return key, problems


def main():
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        work = pathlib.Path(folder)
        compiles = {}
        for compiler, language, level, output, collect in itertools.product(
                ("gcc", "clang"), ("c", "c++"), LEVELS, OUTPUTS, COLLECT):
            flags = (compiler, language, level, tuple(OUTPUTS[output][0]), collect)
            if flags not in compiles:
                compiles[flags] = pool.submit(objects, work, compiler, language, level, output, collect)
        links, failed, collected = [], 0, collections.Counter()
        for (compiler, language, level, pic, collect), made in compiles.items():
            made, problem = made.result()
            if problem:
                print(problem)
                failed += 1
                continue
            for output, linker in itertools.product(OUTPUTS, LINKERS):
                if tuple(OUTPUTS[output][0]) == pic and supported(compiler, level, collect, linker):
                    key = (compiler, language, level, output, collect, linker)
                    links.append(pool.submit(link, work, len(links), key, made))
        for done in links:
            key, problems = done.result()
            for problem in problems:
                if problem[0] == "tombstones":
                    collected[problem[1:]] += 1
                else:
                    failed += 1
                    print(" ".join(key) + ": " + problem)
    for (linker, dead, kept), times in sorted(collected.items()):
        print(f"--gc-sections, {linker}: {times} times uncalled function {'kept' if kept else 'collected'}, "
              f"notes without code: {', '.join(f'{n} at {pc}' for n, pc in dead) or 'none'}")
    print(f"{len(compiles)} compilations, {len(links)} links, {failed} problems")
    return 1 if failed or len(links) < 700 else 0


if __name__ == "__main__":
    sys.exit(main())
