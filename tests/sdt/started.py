#!/usr/bin/env python3
"""Guarded probes fire in processes that start after the tracer, whatever linked them; and where the kernel
would count in the wrong copy of a semaphore, the trace says so, and leaves no breakpoint behind.

usage: started.py SOURCE_ROOT VITRINE
"""
import itertools
import json
import pathlib
import signal
import subprocess
import sys
import tempfile

from build import COMPAT, INCLUDE, SDT, STRICT, cases, run
from notes import Elf

VITRINE = sys.argv[2]
SYSTEMTAP = "-I/usr/include"
LINKERS = ("bfd", "gold", "lld", "mold")
SECTIONS = ["-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"]
KINDS = {
    "pie": ["-fPIE", "-pie"], "no-pie": ["-fno-pie", "-no-pie"], "now": ["-fPIE", "-pie", "-Wl,-z,now"],
    "gc": ["-fPIE", "-pie", *SECTIONS, "-DVITRINE_SDT_KEEP=1"], "lto": ["-fPIE", "-pie", "-flto"],
}


def own(target, compiler, linker, *flags):
    run(compiler, "-O2", *STRICT, "-Wno-pedantic", INCLUDE, f"-fuse-ld={linker}", *flags,
        SDT / "started/own.c", "-o", target, "-ldl")
    return target


def traced(*words, **options):
    """The names of the fires, and what else was said."""
    done = subprocess.run([VITRINE, "trace", "--json", *map(str, words)], capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, **options)
    assert done.returncode == 0, f"ends with {done.returncode}: {done.stdout}{done.stderr}"
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [line["probe"] for line in lines if "probe" in line], done.stdout + done.stderr


def own_page(path):
    """.probes begins a page, and is no longer than its semaphores are."""
    section, = Elf(path).all(".probes")
    assert section.address % 4096 == 0, f".probes is at {section.address:#x}"
    assert section.size <= 4096, f"{section.size} bytes of padding"


def program(folder, compiler, linker, kind):
    path = own(folder / "own", compiler, linker, *KINDS[kind])
    own_page(path)
    fires, said = traced("started:*", "--exec", "--", path)
    assert sorted(fires) == sorted(["started:lazy", "started:asked", "started:shared"] * 5), said


class Trace:
    """A trace of files, which is attached."""

    def __init__(self, *words):
        self.process = subprocess.Popen([VITRINE, "trace", *map(str, words)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.said = ""
        for line in self.process.stderr:
            self.said += line
            if "vitrine: tracing" in line:
                break

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        """Everything that it said."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=60)
        self.said += out + err
        return self.said


class Child:
    """A process of foreign.c that waits."""

    def __init__(self, path):
        self.process = subprocess.Popen([path, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.hear("ready")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()

    def hear(self, word):
        line = self.process.stdout.readline().strip()
        assert line == word, f"it says {line} instead of {word}"

    def fire(self):
        self.process.stdin.write("x")
        self.process.stdin.flush()
        self.hear("fired")

    def byte(self, address):
        with open(f"/proc/{self.process.pid}/mem", "rb") as memory:
            memory.seek(address)
            return memory.read(1)


def library(folder, linker):
    path = own(folder / "own", "gcc", linker, "-fPIE", "-pie")
    plugin = own(folder / "plugin.so", "gcc", linker, "-fPIC", "-shared", "-DLIBRARY")
    own_page(plugin)
    with Trace(path, plugin, "started:*", "--json") as trace:
        run(path, plugin)
        said = trace.end()
    for name in ("lazy", "asked", "shared"):
        assert said.count(f'"probe":"started:{name}"') == 10, said


def foreign(folder, linker, header):
    path = folder / "foreign"
    run("gcc", "-O2", header, f"-fuse-ld={linker}", "-no-pie", "-fno-pie", SDT / "started/foreign.c", "-o", path)
    fires, said = traced("foreign:lazy", "--exec", "--", path)
    assert fires == ["foreign:lazy"] * 5, said
    site, = [p.pc for p in Elf(path).probes()]
    counted = linker in ("bfd", "gold") or header == COMPAT
    with Trace(path, "foreign:lazy", "--json") as trace, Child(path) as child:
        child.fire()
        assert child.byte(site) == b"\xcc", "nothing is attached"
        said = trace.end()
        assert said.count('"probe":"foreign:lazy"') == (5 if counted else 0), said
        assert ("sdt.semaphore-page" in said) != counted, said
        assert child.byte(site) == b"\x90", "the breakpoint is left behind"
        with Trace(child.process.pid, "foreign:lazy", "--json") as running:
            child.fire()
            said = running.end()
        assert said.count('"probe":"foreign:lazy"') == 5 and "semaphore-page" not in said, said


def folded(folder, linker):
    path = folder / "folded"
    run("gcc", "-O2", "-w", COMPAT, "-ffunction-sections", f"-fuse-ld={linker}", "-Wl,--icf=all",
        SDT / "started/folded.c", "-o", path)
    assert len({p.pc for p in Elf(path).probes()}) == 1, "it is not folded"
    fires, said = traced("folded:*", "--exec", "--", path)
    assert sorted(fires) == ["folded:one"] * 6 + ["folded:two"] * 6, said
    assert "folded:one at" in said and "is one instruction with folded:two" in said, said


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        return cases(
            lambda: [(f"{compiler}, {linker}, {kind}", program, folder, compiler, linker, kind)
                     for compiler, linker, kind in itertools.product(("gcc", "clang"), LINKERS, KINDS)
                     if (compiler, linker, kind) != ("gcc", "lld", "lto")],
            lambda: [(f"a library, {linker}", library, folder, linker) for linker in LINKERS],
            lambda: [(f"of another header, {linker}", foreign, folder, linker, SYSTEMTAP) for linker in LINKERS],
            lambda: [(f"of the compatible header, {linker}", foreign, folder, linker, COMPAT) for linker in LINKERS],
            lambda: [(f"folded, {linker}", folded, folder, linker) for linker in ("lld", "mold")])


if __name__ == "__main__":
    sys.exit(main())
