#!/usr/bin/env python3
"""What other people's tools make of our probes: readelf, gdb, bpftrace, bcc's tplist, perf, systemtap.
Each is run on a real program, and must list the same names, addresses and arguments.

usage: peers.py SOURCE_ROOT
"""
import collections
import os
import pathlib
import re
import sys
import tempfile

from build import INCLUDE, SDT, cases, run
from notes import Elf


def readelf(path, probes, _):
    found = re.findall(r"Provider: (\S+)\s+Name: (\S+)\s+Location: 0x(\w+), Base: 0x(\w+), Semaphore: 0x(\w+)"
                       r"\s+Arguments:(.*)", run("readelf", "-n", path))
    ours = [(p.provider, p.name, p.pc, p.base, p.semaphore, p.arguments) for p in probes]
    theirs = [(p, n, int(pc, 16), int(b, 16), int(s, 16), a.strip()) for p, n, pc, b, s, a in found]
    assert theirs == ours, f"{theirs}\n{ours}"


def gdb(path, probes, _):
    said = run("gdb", "-nx", "-q", "-batch", "-ex", "info probes stap", path)
    found = re.findall(r"^stap (\w+)\s+(\w+)\s+0x(\w+)\s+0x(\w+)", said, re.M)
    theirs = sorted((p, n, int(pc, 16), int(s, 16)) for p, n, pc, s in found)
    assert theirs == sorted((p.provider, p.name, p.pc, p.semaphore) for p in probes), said
    # A breakpoint at the probe stops there, and the arguments are those that main was given.
    said = run("gdb", "-nx", "-q", "-batch", "-ex", "break -probe-stap peers:plain", "-ex", "run one two",
               "-ex", "print $_probe_argc", "-ex", "print $_probe_arg0", "-ex", "print (char*)$_probe_arg1",
               "-ex", "print (int)$_probe_arg2", path, env={**os.environ, "DEBUGINFOD_URLS": ""})
    values = re.findall(r"^\$\d+ = (.*)", said, re.M)
    assert [values[0], values[1], values[3]] == ["3", "3", "3"] and f'"{path}"' in values[2], said


def bpftrace(path, probes, _):
    listed = run("bpftrace", "-l", f"usdt:{path}:*").split()
    assert sorted(listed) == sorted({f"usdt:{path}:{p.provider}:{p.name}" for p in probes}), listed
    # It is told the arguments, and fires at a probe whose arguments only an observer makes compute.
    script = f'usdt:{path}:peers:plain {{ printf("plain %d %s\\n", arg0, str(arg1)); }} ' \
             f'usdt:{path}:peers:lazy {{ printf("lazy %d\\n", arg0); }}'
    said = run("bpftrace", "-e", script, "-c", f"{path} x").splitlines()
    assert f"plain 2 {path}" in said and "lazy 6" in said, said


def tplist(path, probes, _):
    said = run("tplist-bpfcc", "-v", "-l", path)
    found = re.findall(r"^(\w+):(\w+) \[sema (\w+)\]\s+(\d+) location\(s\)\s+(\d+) argument\(s\)", said, re.M)
    sites = collections.Counter(p.name for p in probes)
    ours = {(p.provider, p.name, p.semaphore, sites[p.name], len(p.arguments.split())) for p in probes}
    assert {(p, n, int(s, 16), int(l), int(a)) for p, n, s, l, a in found} == ours, said


def perf(path, probes, folder):
    cache = folder / "buildid"  # its own, gone with the folder
    run("perf", "--buildid-dir", cache, "buildid-cache", "--add", path)
    events, = cache.rglob("probes")
    found = re.findall(r"^p:sdt_(\w+)/(\w+?)(?:_\d+)? \S+:0x(\w+)\(0x(\w+)\)(.*)", events.read_text(), re.M)
    elf = Elf(path)
    offset = {s.name: s.offset - s.address for s in elf.sections}
    theirs = sorted((p, n, int(pc, 16), int(s, 16), len(a.split())) for p, n, pc, s, a in found)
    # It names the semaphore by its place in the file; and the code, too, which is the same here.
    ours = sorted((p.provider, p.name, p.pc, p.semaphore + offset[".probes"], len(p.arguments.split()))
                  for p in probes)
    assert offset[".text"] == 0 and theirs == ours, f"{theirs}\n{ours}"
    listed = run("perf", "--buildid-dir", cache, "list", "--raw-dump", "sdt").split()
    assert {e for e in listed if e.startswith("sdt_peers:")} >= {f"sdt_peers:{p.name}" for p in probes
                                                                if p.name != "twice"}, listed


def systemtap(path, probes, folder):
    # To list probes it wants a kernel's build folder, but looks at no more than this of it.
    kernel = folder / "kernel"
    (kernel / "include/config").mkdir(parents=True)
    (kernel / "include/config/kernel.release").write_text(os.uname().release + "\n")
    options = ("UTRACE", "TRACEPOINTS", "ARCH_SUPPORTS_UPROBES", "UPROBES")
    (kernel / ".config").write_text("".join(f"CONFIG_{name}=y\n" for name in options))
    for name in ("Module.symvers", "System.map"):
        (kernel / name).write_text("")
    said = run("stap", "-r", kernel, "-L", f'process("{path}").mark("*")', env={**os.environ, "HOME": str(folder)})
    found = re.findall(r'\.mark\("(\w+)"\)(.*)', said)
    theirs = sorted((n, len(a.split())) for n, a in found)
    assert theirs == sorted({(p.name, len(p.arguments.split())) for p in probes}), said


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)

        def tools():
            for compiler in ("gcc", "clang"):
                path = folder / f"peers-{compiler}"
                # lld puts code elsewhere in the file than in memory, where perf is wrong (llvm 66630).
                run(compiler, "-O2", "-fuse-ld=bfd", INCLUDE, SDT / "peers/subject.c", "-o", path)
                probes = Elf(path).probes()
                assert len(probes) == 6
                for tool in (readelf, gdb, bpftrace, tplist, perf, systemtap):
                    own = folder / compiler / tool.__name__
                    own.mkdir(parents=True)
                    yield (f"{tool.__name__}, {compiler}", tool, path, probes, own)

        return cases(tools)


if __name__ == "__main__":
    sys.exit(main())
