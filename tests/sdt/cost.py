#!/usr/bin/env python3
"""What a probe leaves in the code: its nops, and nothing else. Describing its arguments adds nothing, except
that the address of a text is loaded; a semaphore adds one comparison and one branch.

usage: cost.py SOURCE_ROOT
"""
import pathlib
import sys
import tempfile

from build import INCLUDE, cases, run
from notes import Elf

NOPS = b"\x90\x66\x2e\x0f\x1f\x84\0\0\0\0\0"
COMPARISON = b"\x66\x83\x3d"  # cmpw $imm8, disp(%rip)
C = """
#include <vitrine/sdt.h>
int work(int id, const char* item, long size);
int work(int id, const char* item, long size) { PROBE; return id + *item + (int)size; }
"""
CPP = """
#include <string>
#include <vitrine/sdt.h>
struct Order { int id; double price; std::string item; };
void work(Order& order) { PROBE; order.price = order.id; }
"""


def code(folder, compiler, language, probe):
    source = pathlib.Path(folder) / ("source.c" if language == "c" else "source.cpp")
    source.write_text((C if language == "c" else CPP).replace("PROBE", probe))
    target = pathlib.Path(folder) / "object.o"
    run(compiler, "-O2", "-fcf-protection=none", INCLUDE, "-c", source, "-o", target)
    elf = Elf(target)
    text, = [s for s in elf.all(".text") if s.size]
    return elf.bytes(text)


def only_nops(folder, compiler, probe):
    without = code(folder, compiler, "c", "")
    found = code(folder, compiler, "c", probe)
    assert NOPS in found and found.replace(NOPS, b"", 1) == without, f"{found.hex(' ')}\n{without.hex(' ')}"


def same_code(folder, compiler, language, typed, plain):
    one, other = code(folder, compiler, language, typed), code(folder, compiler, language, plain)
    assert one == other and NOPS in one, f"{one.hex(' ')}\n{other.hex(' ')}"


def one_load_more(folder, compiler, typed, plain):
    """The typed probe has a text, whose address the plain one leaves in memory (g++), or loads too (clang++)."""
    one, other = code(folder, compiler, "c++", typed), code(folder, compiler, "c++", plain)
    load = 4 if compiler == "g++" else 0  # movq disp8(%reg), %reg
    assert len(one) == len(other) + load and NOPS in one, f"{one.hex(' ')}\n{other.hex(' ')}"


def one_comparison(folder, compiler):
    found = code(folder, compiler, "c", "VITRINE_LAZY_TYPED_PROBE(shop, order, (id), (item, item, size))")
    without = code(folder, compiler, "c", "")
    assert found.count(COMPARISON) == 1 and found.count(NOPS) == 1, found.hex(" ")
    # On the way where nobody looks: the comparison (8 bytes), a branch (2), and the function as it was.
    at = found.index(COMPARISON)
    rest = found[:at] + found[at + 10:]
    assert 0x74 <= found[at + 8] <= 0x75, "no branch on the comparison"
    if compiler == "gcc":
        assert rest.startswith(without), f"{found.hex(' ')}\n{without.hex(' ')}"
    else:  # clang leaves the probe where it is, and may need one move between registers
        assert len(rest.replace(NOPS, b"", 1)) <= len(without) + 3, f"{found.hex(' ')}\n{without.hex(' ')}"


def main():
    with tempfile.TemporaryDirectory() as folder:
        def all_cases():
            for compiler in ("gcc", "clang"):
                for probe in ("VITRINE_PROBE(shop, order)", "VITRINE_PROBE(shop, order, id, item, size)",
                              "VITRINE_TYPED_PROBE(shop, order, (id), (item, item, size))"):
                    yield (f"only nops, {compiler}: {probe}", only_nops, folder, compiler, probe)
                yield (f"lazy, {compiler}", one_comparison, folder, compiler)
                yield (f"C, {compiler}", same_code, folder, compiler, "c",
                       "VITRINE_TYPED_PROBE(shop, order, (id), (item, item, size))",
                       "VITRINE_PROBE(shop, order, id, item, size)")
            for compiler in ("g++", "clang++"):
                yield (f"C++, numbers, {compiler}", same_code, folder, compiler, "c++",
                       "VITRINE_TYPED_PROBE(shop, order, (id, order.id), (price, order.price))",
                       "VITRINE_PROBE(shop, order, order.id, order.price)")
                yield (f"C++, {compiler}", one_load_more, folder, compiler,
                       "VITRINE_TYPED_PROBE(shop, order, (id, order.id), (item, order.item), (price, order.price))",
                       "VITRINE_PROBE(shop, order, order.id, order.item.data(), order.item.size(), order.price)")

        return cases(all_cases)


if __name__ == "__main__":
    sys.exit(main())
