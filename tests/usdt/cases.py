#!/usr/bin/env python3
"""What is odd, or large, or done to files before and after the object step.

usage: cases.py SOURCE_ROOT VITRINE [WORD IN THE NAME OF A CASE…]
"""
import hashlib
import json
import os
import pathlib
import shutil
import sys
import tempfile

from checks import is_stub
from dof import LinkedElf
from folder import FILES, Folder, Running, names, shown
from step import LINKERS, VITRINE, Failure, header, run

def digest(*paths):
    return [hashlib.sha256(pathlib.Path(p).read_bytes()).hexdigest() for p in paths]


# --- sections that linkers drop or fold

def collected(folder, ld):
    """Functions that nobody calls: what is left of them, if anything, has a site where it is."""
    live = folder.compile("live.c", "-O2", "-ffunction-sections")
    dead = folder.compile("dead.c", "-O2", "-ffunction-sections")
    probes = folder.step(live, dead)
    path = folder.link("gc", live, dead, probes, "-Wl,--gc-sections", ld=ld)
    sites = folder.good(path, said="live 1\n")
    assert {"live"} <= set(names(sites)) <= {"live", "dead"}, sites
    kept = "kept" if "dead" in names(sites) else "dropped"
    print(f"    --gc-sections, {ld}: a dead function with a probe is {kept}")


def folded(folder, ld, how):
    """Functions with the same instructions but other probes stay two; with the same probe they may be one."""
    same = folder.compile("same.c", "-O2", "-ffunction-sections")
    probes = folder.step(same)
    path = folder.link("icf", same, probes, f"-Wl,--icf={how}", ld=ld)
    sites = folder.good(path, said="6\n", labels=False)
    by_probe = {}
    for site in sites:
        if not is_stub(site):
            by_probe.setdefault(site.probe, set()).add(site.address)
    assert set(by_probe) == {"start", "done", "tick"}, sites
    assert not by_probe["start"] & by_probe["done"], f"folded with another probe: {sites}"
    print(f"    --icf={how}, {ld}: the same probe in two functions is at {len(by_probe['tick'])} places")


# --- what is done to linked files

def stripped(folder):
    """Without symbols, and without section headers, the sites are the same."""
    live = folder.compile("live.c", "-O2")
    path = folder.link("whole", live, folder.step(live), "-g")
    sites = folder.good(path, said="live 1\n")
    places = [(s.provider, s.probe, s.address) for s in sites]
    for command in (["strip"], ["strip", "--strip-debug"]):
        copy = folder.path / "stripped"
        shutil.copy(path, copy)
        run(*command, copy)
        assert LinkedElf(copy).sites() == sites, LinkedElf(copy).sites()
        assert shown(copy) == places, shown(copy)
    data = bytearray(path.read_bytes())
    data[0x28:0x30] = bytes(8)  # e_shoff
    data[0x3A:0x40] = bytes(6)  # e_shentsize, e_shnum, e_shstrndx
    copy.write_bytes(data)
    assert shown(copy) == places, shown(copy)


def debug_only(folder):
    """A file of debug information has the section, but no bytes in it: no probes of it, and no complaint. The notes beside
    it are there, as those of <sys/sdt.h> are."""
    live = folder.compile("live.c", "-O2", "-g")
    path = folder.link("whole", live, folder.step(live), "-g")
    run("objcopy", "--only-keep-debug", path, folder.path / "only.debug")
    told = json.loads("[" + run(VITRINE, "probes", "--json", folder.path / "only.debug").strip().replace("\n", ",") + "]")
    assert told and {probe["kind"] for probe in told} == {"sdt"}, told


# --- how objects get to the linker

def two_stages(folder, ld, first):
    live, other = folder.compile("live.c", "-O2"), folder.compile("other.c", "-O2")
    probes = folder.step(live, other)
    together = folder.link("together.o", "-r", "-nostdlib", live, other, probes, ld=first)
    sites = folder.good(folder.link("two", together, ld=ld), said="live 1\n")
    assert {"live", "other"} <= set(names(sites))


def archived(folder, ld, kind):
    """Members that nobody needs are not pulled in by the probe object."""
    live, other, unused = (folder.compile(f"{n}.c", "-O2") for n in ("live", "calls_other", "unused"))
    needed = folder.compile("other.c", "-O2")
    probes = folder.step(live, other, unused, needed)
    archive = folder.path / "libcases.a"
    archive.unlink(missing_ok=True)
    run("ar", f"rcs{kind}", archive, other, unused, needed)
    path = folder.link("archived", live, probes, archive, ld=ld)
    sites = folder.good(path, said="live 1\n")
    assert "unused" not in LinkedElf(path).symbols() and "other" not in names(sites), sites
    path = folder.link("archived", "-Wl,-u,calls_other", live, probes, archive, ld=ld)
    assert "other" in names(folder.good(path)) and "unused" not in LinkedElf(path).symbols()


def unprocessed(folder, ld):
    """An object that the step never saw: its calls end in stubs, which are sites."""
    live, other = folder.compile("live.c", "-O2"), folder.compile("calls_other.c", "-O2")
    needed = folder.compile("other.c", "-O2")
    probes = folder.step(live)
    sites = folder.good(folder.link("partly", "-Wl,-u,calls_other", live, other, needed, probes, ld=ld), labels=False)
    assert "other" in {s.probe for s in sites if is_stub(s)}, sites
    try:
        # mold 2 links a library with undefined hidden symbols, as the address 0, unless it is told not to.
        options = ["-Wl,-z,defs"] if ld == "mold" else []
        folder.link("never.so", "-shared", *options, folder.compile("other.c", "-fPIC", name="never"), ld=ld)
    except Failure:
        return
    raise AssertionError("a library links with probes that no step saw")


def same_object_twice(folder, ld):
    """Copies of one object, in two archives and under one name: each has its own sites."""
    live, other = folder.compile("live.c", "-O2"), folder.compile("other.c", "-O2", "-Dother=renamed")
    for place in ("a", "b"):
        (folder.path / place).mkdir(exist_ok=True)
        shutil.copy(folder.compile("twice.c", "-O2"), folder.path / place / "twice.o")
    copies = [folder.path / "a/twice.o", folder.path / "b/twice.o"]
    probes = folder.step(live, other, *copies)
    sites = folder.good(folder.link("copies", live, other, *copies, probes, ld=ld), said="live 1\n")
    assert len([s for s in sites if s.probe == "other" and s.function == "twice"]) == 2, sites


def link_options(folder, ld, *options):
    live, other = folder.compile("live.c", "-O2"), folder.compile("other.c", "-O2")
    folder.good(folder.link("options", live, other, folder.step(live, other), *options, ld=ld), said="live 1\n")


# --- running the step again

def again(folder):
    """The second and third run change nothing; a recompiled object alone changes."""
    objects = [folder.compile(f"{n}.c", "-O2") for n in ("live", "other", "dead")]
    before = digest(*objects)
    first = folder.step(*objects, output="first.o")
    once = digest(*objects, first)
    assert all(a != b for a, b in zip(before, once)), "not rewritten"
    times = [p.stat().st_mtime_ns for p in objects]
    for output in ("second.o", "third.o"):
        assert digest(*objects, folder.step(*objects, output=output)) == once, output
    assert times == [p.stat().st_mtime_ns for p in objects], "what does not change keeps its time"
    folder.compile("other.c", "-O2")
    assert digest(*objects, folder.step(*objects, output="first.o")) == once, "compiled again, it is another object"
    folder.compile("other.c", "-O0")
    folder.good(folder.link("again", *objects, folder.step(*objects)), said="live 1\n")


def times_kept(folder):
    """Objects keep their times when they are rewritten: Ninja compiles those again that are not of the time
    it recorded."""
    live = folder.compile("live.c", "-O2")
    os.utime(live, ns=(1_600_000_000_000_000_000,) * 2)
    folder.step(live)
    assert live.stat().st_mtime_ns == 1_600_000_000_000_000_000


def reproducible(folder):
    made = []
    for place in ("here", "there/below"):
        own = Folder(folder.path / place)
        objects = [own.compile(f"{n}.c", "-O2") for n in ("live", "other")]
        made.append(digest(*objects, own.step(*objects)))
    assert made[0] == made[1], made


# --- several providers, definitions and outputs

def two_definitions(folder, ld):
    """Two runs over the same objects, each with a definition of its own."""
    header(FILES / "second.d", folder.path)
    both, live = folder.compile("both.c", "-O2"), folder.compile("live.c", "-O2", "-Dmain=live_main")
    first = folder.step(both, live)
    second = folder.step(both, live, definition=FILES / "second.d", output="second.o")
    path = folder.link("both", both, live, first, second, ld=ld)
    sites = folder.good(path, said="both 2\n")
    assert {s.provider for s in sites} >= {"cases", "second"}, sites


def program_and_library(folder, ld):
    """A provider in a program and in the library that it loads: each has its own sites."""
    other = folder.compile("other.c", "-O2", "-fPIC")
    library = folder.link("libother.so", "-shared", other, folder.step(other, output="library.o"), ld=ld)
    live = folder.compile("calls_other.c", "-O2", "-DMAIN")
    path = folder.link("program", live, folder.step(live), library, f"-Wl,-rpath,{folder.path}", ld=ld)
    assert "called" in names(folder.good(path, said="called 1\n"))
    assert "other" in names(folder.good(library))


# --- large ones

def thousand_probes(folder):
    """More than 64 KiB of DOF."""
    definition = folder.path / "large.d"
    definition.write_text("provider large {\n" + "".join(
        f"  probe number__{i}(int, const char *);\n" for i in range(1000)) + "};\n")
    header(definition, folder.path)
    source = folder.path / "large.c"
    source.write_text('#include "large.h"\n' + "".join(
        f"__attribute__((noinline)) static void f{i}(int n) {{ LARGE_NUMBER_{i}(n, \"{i}\"); "
        f"__asm__ volatile(\"here_large_number__{i}_%=:\" : :); }}\n" for i in range(1000))
        + "int main(void) {\n" + "".join(f"  f{i}({i});\n" for i in range(1000)) + "  return 0;\n}\n")
    large = folder.compile(source, "-O2")
    probes = folder.step(large, definition=definition)
    for ld in LINKERS:
        path = folder.link("large", large, probes, ld=ld)
        sites = folder.good(path, said="")
        assert len({s.probe for s in sites if not is_stub(s)}) == 1000
        first, last = LinkedElf(path).dof_range()
        assert last - first > 65536, last - first


def many_sections(folder):
    """More than 65,279 sections: their numbers do not fit symbols, and are in a table of their own."""
    source = folder.path / "sections.S"
    source.write_text(".altmacro\n.macro each n\n.section .text.f\\n, \"ax\"\n.byte 0x90\n.endm\n"
                      ".set i, 0\n.rept 66000\neach %i\n.set i, i+1\n.endr\n"
                      ".section .text.last, \"ax\"\n.globl last\n.type last, @function\n"
                      "last:\nsub $8, %rsp\nmov $7, %edi\ncall __dtrace_cases___other\n"
                      "here_cases_other_0:\nadd $8, %rsp\nret\n"
                      ".size last, . - last\n.section .note.GNU-stack, \"\", @progbits\n")
    sections = folder.compile(source)
    live = folder.compile("live.c", "-O2", "-DCALL=last")
    sites = folder.good(folder.link("sections", live, sections, folder.step(live, sections)), said="live 1\n")
    assert ("other", "last") in {(s.probe, s.function) for s in sites}, sites


def many_sites(folder):
    """More than 65,535 sites of a probe in a function: more than a record can count."""
    source = folder.path / "sites.S"
    source.write_text(".globl many\n.type many, @function\nmany:\n.rept 66000\n"
                      "call __dtrace_cases___other\n.endr\nret\n.size many, . - many\n"
                      ".section .note.GNU-stack, \"\", @progbits\n")
    many = folder.compile(source)
    live = folder.compile("live.c", "-O2", "-DCALL=many")
    path = folder.link("sites", live, many, folder.step(live, many))
    sites = folder.good(path, said="live 1\n", labels=False)
    start = LinkedElf(path).symbols()["many"][0]
    assert {s.address for s in sites if s.function == "many"} == {start + 5 * i for i in range(66000)}


def long_names(folder):
    """Functions whose names no reader of DOF takes whole (C++ makes such)."""
    name = "f" * 700
    live = folder.compile("live.c", "-O2", f"-Dmain=main", "-DLIVE=" + name)
    sites = folder.good(folder.link("long", live, folder.step(live)), said="live 1\n")
    functions = {s.function for s in sites if s.probe == "live"}
    assert all(len(f) <= 127 for f in functions), functions


def main():
    with tempfile.TemporaryDirectory() as place:
        running = Running(place, sys.argv[3:])
        case = running.case
        for ld in LINKERS:
            case(f"--gc-sections, {ld}", collected, ld)
            for first in ("bfd", "gold", "lld"):
                case(f"-r with {first}, then {ld}", two_stages, ld, first)
            case(f"archive, {ld}", archived, ld, "")
            case(f"thin archive, {ld}", archived, ld, "T")
            case(f"an object that the step never saw, {ld}", unprocessed, ld)
            case(f"copies of one object, {ld}", same_object_twice, ld)
            case(f"two definitions, {ld}", two_definitions, ld)
            case(f"program and library, {ld}", program_and_library, ld)
            for options in (["-Wl,-z,now"], ["-Wl,-z,text"], ["-Wl,-z,noseparate-code"], ["-Wl,--emit-relocs"]):
                if ld == "gold" and "noseparate" in options[0]:
                    continue  # gold has no such option
                case(f"{options[0]}, {ld}", link_options, ld, *options)
        for ld, how in (("gold", "safe"), ("gold", "all"), ("lld", "all"), ("mold", "safe"), ("mold", "all")):
            case(f"--icf={how}, {ld}", folded, ld, how)
        case("strip", stripped)
        case("a file of debug information", debug_only)
        case("again and again", again)
        case("times of objects", times_kept)
        case("the same bytes in two folders", reproducible)
        case("a thousand probes", thousand_probes)
        case("66,000 sections", many_sections)
        case("66,000 sites in a function", many_sites)
        case("long names", long_names)
        return running.done()


if __name__ == "__main__":
    sys.exit(main())
