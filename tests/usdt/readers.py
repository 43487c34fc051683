#!/usr/bin/env python3
"""Other tools find the probes of a provider in the notes that the object step writes beside its DOF: readelf, gdb,
bpftrace, bcc, perf and systemtap list them; gdb and bpftrace stop and fire there, with the arguments. Tools that are not
installed are named.

    readers.py SOURCE_ROOT VITRINE
"""
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

DEFINITION = """provider shop {
  probe request__start(int id, const char *path, long a, long b, long c, long d, int seventh);
  probe idle();
  probe never(int);
};
"""
PROGRAM = """#include "shop.h"
#include <stdio.h>
__attribute__((noinline)) static void work(int id, const char *path) {
  SHOP_REQUEST_START(id, path, 1, 2, 3, 4, 77);
  SHOP_REQUEST_START(id + 1, path, 1, 2, 3, 4, 78);
}
int main(int argc, char **argv) {
  do {
    work(argc + 40, argv[0]);
    if (SHOP_IDLE_ENABLED()) SHOP_IDLE();
  } while (argc > 1 && getchar() != EOF);
  return 0;
}
"""
# As PROGRAM, in inline functions that two objects have: the linker drops one copy of each.
INLINE = """#include "shop.h"
__attribute__((noinline)) inline void work(int id, const char *path) {
  if (id < 0) __asm__ volatile(".zero 0x4000, 0x90");  // the probes are far behind the beginning
  SHOP_REQUEST_START(id, path, 1, 2, 3, 4, 77);
  SHOP_REQUEST_START(id + 1, path, 1, 2, 3, 4, 78);
}
__attribute__((noinline)) inline void idle() {
  if (SHOP_IDLE_ENABLED()) SHOP_IDLE();
}
"""
FIRST = """#include "inline.h"
#include <cstdio>
void other();
int main(int argc, char **argv) {
  do {
    work(argc + 40, argv[0]);
    idle();
    if (argc > 5) other();
  } while (argc > 1 && getchar() != EOF);
}
"""
SECOND = """#include "inline.h"
void other() {
  work(1, "other");
  idle();
}
"""


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, **options).stdout


def have(tool):
    if shutil.which(tool):
        return True
    print(f"{tool} is not installed: not asked")
    return False


def build(vitrine, folder, *options):
    folder.mkdir()
    (folder / "shop.d").write_text(DEFINITION)
    (folder / "main.c").write_text(PROGRAM)
    run(vitrine, "usdt", "header", "-s", "shop.d", cwd=folder)
    run("gcc", "-O2", "-g", "-c", "main.c", cwd=folder)
    run(vitrine, "usdt", "link", *options, "-s", "shop.d", "-o", "probes.o", "main.o", cwd=folder)
    run("gcc", "-o", "shopd", "main.o", "probes.o", cwd=folder)
    return folder / "shopd"


def build_copies(vitrine, folder, step=(), link=()):
    folder.mkdir()
    for name, text in (("shop.d", DEFINITION), ("inline.h", INLINE), ("first.cpp", FIRST), ("second.cpp", SECOND)):
        (folder / name).write_text(text)
    run(vitrine, "usdt", "header", "-s", "shop.d", cwd=folder)
    run("g++", "-O2", "-g", "-c", "first.cpp", cwd=folder)
    run("g++", "-O0", "-g", "-c", "second.cpp", cwd=folder)
    run(vitrine, "usdt", "link", *step, "-s", "shop.d", "-o", "probes.o", "first.o", "second.o", cwd=folder)
    run("g++", *link, "-o", "shopd", "first.o", "second.o", "probes.o", cwd=folder)
    return folder / "shopd"


def check_copies(vitrine, program, in_code):
    """Tools attach to all notes of a probe or to none: those of dropped functions lead to code that nothing runs, or
    with --lld to no address, and never into other code."""
    text = run("readelf", "-n", program)
    assert len(re.findall(r"Name: request__start\n", text)) == 5, text  # of two functions, and the stub's
    probes = listed(vitrine, program)
    assert {kind for kind, _ in probes} == {"dof"}, probes.keys()
    assert len(probes["dof", "request-start"]["sites"]) == 3, probes
    sites = {int(site["address"], 16) for probe in probes.values() for site in probe["sites"]}
    dropped = {int(at, 16) for at in re.findall(r"Location: 0x(\w+)", text)} - sites
    if not in_code:
        assert dropped == {0}, f"{dropped}\n{text}"
    else:
        # One for each probe that is in a dropped function: the kernel refuses one address with two semaphores.
        code = run("objdump", "-d", "--no-show-raw-insn", program)
        assert len(dropped) == 2, f"{dropped}\n{text}"
        for at in dropped:
            assert re.search(rf"^ *{at:x}:\tnop\n *{at + 1:x}:\tret", code, re.MULTILINE), f"{at:#x}\n{code}"
    text = " ".join(run(vitrine, "check", program).split())
    assert ("usdt link --no-sdt writes no notes" in text) != in_code, text


def check_folding(vitrine, folder):
    """The code for dropped functions is not one for two providers, though the linker folds equal code."""
    folder.mkdir()
    for name in ("aa", "bb"):
        (folder / f"{name}.d").write_text(f"provider {name} {{ probe go(int); }};\n")
        run(vitrine, "usdt", "header", "-s", f"{name}.d", cwd=folder)
    body = """#include "aa.h"
#include "bb.h"
__attribute__((noinline)) inline void fire(int i) { AA_GO(i); BB_GO(i); }
"""
    (folder / "main.cpp").write_text(body + "void other();\nint main() { fire(1); other(); }\n")
    (folder / "other.cpp").write_text(body + "void other() { fire(2); }\n")
    for name in ("main", "other"):
        run("g++", "-O0", "-ffunction-sections", "-c", f"{name}.cpp", cwd=folder)
    for name in ("aa", "bb"):
        run(vitrine, "usdt", "link", "-s", f"{name}.d", "-o", f"{name}_probes.o", "main.o", "other.o", cwd=folder)
    run("g++", "-fuse-ld=lld", "-Wl,--icf=all", "-o", "folded", "main.o", "other.o", "aa_probes.o", "bb_probes.o",
        cwd=folder)
    notes = re.findall(r"Provider: (\w+)\n.*\n +Location: (0x\w+)", run("readelf", "-n", folder / "folded"))
    assert len(notes) == 6 and len(set(at for _, at in notes)) == 6, notes


def listed(vitrine, program):
    return {(o["kind"], o["name"]): o for o in map(json.loads, run(vitrine, "probes", "--json", program).splitlines())}


def check_vitrine(vitrine, program):
    """The same site is listed once, whatever announces it, and stubs are not counted."""
    probes = listed(vitrine, program)
    assert {kind for kind, _ in probes} == {"dof"}, probes.keys()
    assert {name for _, name in probes} == {"request-start", "idle", "never"}
    sites = probes["dof", "request-start"]["sites"]
    assert [bool(site.get("stub")) for site in sites].count(False) == 2, sites
    lines = run(vitrine, "probes", program).splitlines()
    counts = dict(line.split()[:2] for line in lines if line.startswith("  shop:"))
    assert counts == {"shop:request-start": "2", "shop:idle": "1", "shop:never": "stub"}, counts
    return [int(site["address"], 16) for site in sites if not site.get("stub")]


def check_readelf(program, addresses):
    text = run("readelf", "-n", program)
    notes = re.findall(r"Name: (\S+)\n.*Location: (0x[0-9a-f]+), Base: (0x[0-9a-f]+), Semaphore: (0x[0-9a-f]+)\n"
                       r".*Arguments: (.*)", text)
    calls = [note for note in notes if note[0] == "request__start" and int(note[1], 16) in addresses]
    assert len(calls) == 2, text
    for _, _, base, semaphore, arguments in calls:
        assert int(base, 16) and int(semaphore, 16)
        assert arguments.split()[:2] == ["-4@%edi", "8@%rsi"] and arguments.split()[6] == "-4@(%rsp)", arguments


def check_gdb(program, addresses):
    text = run("gdb", "-batch", "-nx", "-ex", "info probes", program)
    found = [int(a, 16) for a in re.findall(r"^stap\s+shop\s+request__start\s+(0x[0-9a-f]+)", text, re.MULTILINE)]
    assert set(addresses) <= set(found), text
    assert not re.search(r"^dtrace\s+shop", text, re.MULTILINE), text
    text = run("gdb", "-batch", "-nx", "-ex", "break -probe-stap shop:request__start", "-ex", "run", "-ex", "bt 2",
               "-ex", "print $_probe_arg0", "-ex", "print (char*)$_probe_arg1", "-ex", "print $_probe_arg6",
               "-ex", "continue", "-ex", "print $_probe_arg0", program)
    assert re.search(r"#0 .*\bwork \(", text), text
    assert re.findall(r"\$\d = (.*)", text)[0::2] == ["41", "77"], text
    assert f'"{program}"' in text and "$4 = 42" in text, text


def check_bpftrace(program):
    text = run("bpftrace", "-l", f"usdt:{program}:*")
    assert f"usdt:{program}:shop:request__start" in text and f"usdt:{program}:shop:idle" in text, text
    script = f'usdt:{program}:shop:request__start {{ printf("%d %s\\n", arg0, str(arg1)); }} ' \
             f'usdt:{program}:shop:idle {{ printf("idle\\n"); exit(); }}'
    with subprocess.Popen([program, "again"], stdin=subprocess.PIPE, text=True) as target:
        with subprocess.Popen(["bpftrace", "-p", str(target.pid), "-e", script], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) as tracer:
            said = []
            while not (said and said[-1].startswith("Attaching")):  # behind warnings
                said.append(tracer.stdout.readline())
                assert said[-1], f"bpftrace does not attach: {said}"
            # It says so before it has attached.
            while tracer.poll() is None:
                try:
                    target.stdin.write("\n")
                    target.stdin.flush()
                    tracer.wait(0.05)
                except subprocess.TimeoutExpired:
                    pass
            text = tracer.stdout.read()
        target.stdin.close()
    assert f"42 {program}\n" in text and "43 " in text and "idle\n" in text, text


def check_systemtap(program, folder):
    """It requires the headers of some kernel, not of the running one, to list a file's probes: those of VITRINE_KERNEL_HEADERS,
    or of Debian's package linux-headers-amd64."""
    headers = [os.environ.get("VITRINE_KERNEL_HEADERS", "")] + glob.glob("/usr/src/linux-headers-*")
    headers = [path for path in headers if os.path.exists(os.path.join(path, "Module.symvers"))]
    if not headers:
        print("stap lists no probe of any file without kernel headers (linux-headers-amd64): not asked")
        return
    said = run("stap", "-r", headers[0], "-L", f'process("{program}").mark("*")', env={**os.environ, "HOME": folder})
    assert 'mark("request__start") $arg1' in said and 'mark("idle")' in said, said


def main(_root, vitrine):
    with tempfile.TemporaryDirectory() as folder:
        program = build(vitrine, pathlib.Path(folder) / "with")
        addresses = check_vitrine(vitrine, program)
        check_readelf(program, addresses)
        if have("gdb"):
            check_gdb(program, addresses)
        if have("bpftrace"):
            check_bpftrace(program)
        if have("tplist-bpfcc"):
            text = run("tplist-bpfcc", "-l", program)
            assert "shop:request__start" in text and "shop:idle" in text, text
        if have("perf"):
            with tempfile.TemporaryDirectory() as cache:
                run("perf", "--buildid-dir", cache, "buildid-cache", "--add", program)
                text = run("perf", "--buildid-dir", cache, "list", "--no-desc", "sdt")
                assert "sdt_shop:request__start" in text, text
        if have("stap"):
            check_systemtap(program, folder)
        copies = build_copies(vitrine, pathlib.Path(folder) / "copies")
        check_copies(vitrine, copies, True)
        if have("gdb"):
            check_gdb(copies, [])
        copies_lld = build_copies(vitrine, pathlib.Path(folder) / "lld", ["--lld"], ["-fuse-ld=lld"])
        check_copies(vitrine, copies_lld, False)
        if have("bpftrace"):
            check_bpftrace(copies)
            check_bpftrace(copies_lld)
        check_folding(vitrine, pathlib.Path(folder) / "folding")
        without = build(vitrine, pathlib.Path(folder) / "without", "--no-sdt")
        assert "stapsdt" not in run("readelf", "-nSW", without)
        assert listed(vitrine, without).keys() == listed(vitrine, program).keys()


if __name__ == "__main__":
    main(*sys.argv[1:])
