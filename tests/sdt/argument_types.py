#!/usr/bin/env python3
"""Every kind of argument, standard and machine: sizes, signs, names and kinds in the notes; no warnings;
each note's address is that of its probe; lazy arguments are computed only when somebody looks.

usage: argument_types.py SOURCE_ROOT
"""
import pathlib
import re
import sys
import tempfile

from build import INCLUDE, SDT, STRICT, Failure, cases, run
from notes import Elf

INTEGER, FLOATING, BOOLEAN, POINTER, C_STRING, ENUMERATION, TEXT, BYTES = 1, 2, 3, 4, 5, 6, 8, 9
ADDRESS, WORD = "address", "word"  # their size depends on the machine
SIZES = {
    "numbers_1": ["-1", "1", "-2", "2"],
    "numbers_2": ["-4", "4", "4f", "8f"],
    "numbers_3": ["-word", WORD],
    "addresses": [ADDRESS] * 4,
    "others": ["1", "4", "-4", "wide"],
    "constants": ["-4", "4", "-4", "-4"],  # 'c' and == are ints in C
    "twelve": ["-4"] * 12,
    "none": [],
}
TYPED = {
    "typed_numbers_1": [("-1", INTEGER, "a"), ("1", INTEGER, "b"), ("-2", INTEGER, "c"), ("2", INTEGER, "d")],
    "typed_numbers_2": [("-4", INTEGER, "e"), ("4", INTEGER, "f"), ("4f", FLOATING, "i"), ("8f", FLOATING, "j")],
    "typed_addresses": [(ADDRESS, POINTER, "pointer"), (ADDRESS, C_STRING, "array"),
                        (ADDRESS, C_STRING, "literal"), (ADDRESS, POINTER, "price"),
                        (ADDRESS, C_STRING, "thing->name")],
    "typed_others": [("1", BOOLEAN, "yes"), ("-4", ENUMERATION, "negative", "signed_enum")],
    "texts": [(ADDRESS, TEXT, "text", "", "-4"), (ADDRESS, BYTES, "bytes", "", WORD)],
    "members": [("-4", INTEGER, "thing->id"), ("8f", FLOATING, "price")],
    "typed_none": [],
    "typed_constant": [("-4", INTEGER, "five")],
    "typed_nine": [("-4", INTEGER, name) for name in "abcdefghi"],
    "lazy": [("-4", INTEGER, "cost")],
}
SIZES_CPP = {"constants": ["-4", "4", "-1", "1"], "scoped": ["-1", ADDRESS, "4f"]}
TYPED_CPP = {
    "containers": [("-4", INTEGER, "id"), (ADDRESS, TEXT, "item", "", WORD),
                   (ADDRESS, TEXT, "name", "", WORD), (ADDRESS, BYTES, "bytes", "", WORD)],
    "temporary": [(ADDRESS, TEXT, "text", "", WORD)],
    "typed_scoped": [("-1", ENUMERATION, "status", "shop::Status"), ("-1", ENUMERATION, "bare"),
                     (ADDRESS, POINTER, "null"), ("4f", FLOATING, "number")],
    "in_lambda": [(ADDRESS, TEXT, "item", "", WORD)],
    "view": [(ADDRESS, TEXT, "view", "", WORD)],
}
ENUMERATORS = {"signed_enum": {-1: "MINUS", 1: "PLUS"}}
ENUMERATORS_CPP = {"shop::Status": {-2: "bad", 1: "good"}}
# Of values/enumerators.c: every underlying type, and lists in one line of two headers.
WIDE = {
    "of_u8": {0: "u8_none", 255: "u8_most"},
    "of_i8": {-128: "i8_least", 127: "i8_most"},
    "of_u16": {0: "u16_none", 65535: "u16_most"},
    "of_i16": {-32768: "i16_least", 32767: "i16_most"},
    "of_u32": {0: "u32_none", 0x80000000: "u32_high", 0xffffffff: "u32_most"},
    "of_i32": {-0x80000000: "i32_least", 0x7fffffff: "i32_most"},
    "of_u64": {0: "u64_none", 0x80000000: "u64_high", -1: "u64_most"},
    "of_i64": {-0x8000000000000000: "i64_least", -2147483649: "i64_low", -1: "i64_minus",
               0x123456789abcdef: "i64_wide", 0x7fffffffffffffff: "i64_most"},
    "one_t": {1: "first"},
    "two_t": {1: "second"},
}
HERE = {"none": 0, "typed_none": 1, "constants": 2}
NOP = {"x86_64": b"\x90\x66\x2e\x0f\x1f\x84\0\0\0\0\0", "i386": b"\x90", "aarch64": b"\x1f\x20\x03\xd5"}


def split(arguments):
    """The sizes of an argument string, and whether each has an operand."""
    if not arguments:
        return []
    return re.findall(r"(?:^| )(-?\d+f?)@\S", arguments)


def check(path, language, machine):
    elf = Elf(path)
    word = "8" if elf.wide else "4"

    def size(text):
        wide = "4" if machine == "aarch64" else "-4"  # wchar_t
        return {ADDRESS: word, WORD: word, "-word": "-" + word, "wide": wide}.get(text, text)

    sizes = {**SIZES, **(SIZES_CPP if language == "c++" else {})}
    if machine == "aarch64" and language == "c++":
        sizes["constants"] = ["-4", "4", "1", "1"]  # char has no sign there
    typed = {**TYPED, **(TYPED_CPP if language == "c++" else {})}
    probes = elf.probes()
    described, enumerators = elf.typed()
    by_pc = {(t.pc, t.name): t for t in described}
    symbols = elf.symbols()
    seen = set()
    for probe in probes:
        what = f"{probe.name} at {probe.pc:#x}, {probe.arguments!r}"
        assert probe.provider == "types", what
        seen.add(probe.name)
        note = by_pc.pop((probe.pc, probe.name), None)
        if note is None:
            wanted = ["-4"] if probe.name == "lazy" else [size(s) for s in sizes[probe.name]]
        else:
            seen.add("typed " + probe.name)
            wanted, kinds = [], []
            for entry in typed[probe.name]:
                wanted += [size(entry[0])] + [size(s) for s in entry[4:5]]
                kinds.append((entry[1], entry[2], (*entry, "")[3]))
            assert note.arguments == kinds, f"{what}: described as {note.arguments}"
        assert split(probe.arguments) == wanted, f"{what}: sizes should be {wanted}"
        text, = [s for s in elf.sections if s.flags & 4 and s.address <= probe.pc < s.address + s.size]
        code = elf.bytes(text)[probe.pc - text.address:]
        assert code.startswith(NOP[machine]), f"{what}: the code is {code[:12].hex()}"
        if probe.name in HERE:
            label = symbols[f"types_here_{HERE[probe.name]}"][0]
            assert label == probe.pc, f"{what}: it is at {label:#x}"
    assert not by_pc, f"typed notes without a v3 note: {by_pc}"
    assert seen == set(sizes) | set(typed) | {"typed " + t for t in typed}, f"only {sorted(seen)}"
    assert enumerators == {**ENUMERATORS, **(ENUMERATORS_CPP if language == "c++" else {})}, enumerators


def subject(folder, command, language, machine, runner):
    path = pathlib.Path(folder) / "subject"
    compile_and_check = [*command, *STRICT, INCLUDE, SDT / "types" / ("types.cpp" if language == "c++" else "types.c"),
                         "-o", path]
    run(*compile_and_check)
    check(path, language, machine)
    run(*runner, path)


def native(folder):
    for compiler, language, standards in (
            ("gcc", "c", ["c99", "gnu99", "c11", "c17", "c2x"]),
            ("clang", "c", ["c99", "gnu99", "c11", "c17", "c2x"]),
            ("g++", "c++", ["c++11", "gnu++11", "c++14", "c++17", "c++20"]),
            ("clang++", "c++", ["c++11", "gnu++11", "c++14", "c++17", "c++20"])):
        for standard in standards:
            for level in ("-O0", "-O2"):
                yield (f"{compiler} {standard} {level}", subject, folder,
                       [compiler, f"-std={standard}", level], language, "x86_64", [])


def flags(folder):
    """Options that change what the compiler does with asm."""
    for compiler, options in (
            ("g++", "-fsanitize=address,undefined"), ("clang++", "-fsanitize=address,undefined"),
            ("g++", "-O2 -fsanitize=thread"), ("g++", "-O2 -flto"), ("clang++", "-O2 -flto=thin -fuse-ld=lld"),
            ("g++", "-O2 -masm=intel"), ("clang++", "-O2 -masm=intel"), ("clang++", "-O2 -fno-integrated-as"),
            ("g++", "-O3 -funroll-loops -march=native"), ("g++", "-Og -g3 -fPIC -fno-inline"),
            ("g++", "-O2 -DVITRINE_SDT_RETAIN=0"), ("g++", "-O2 -fcf-protection=full -pg")):
        yield (f"{compiler} {options}", subject, folder, [compiler, *options.split()], "c++", "x86_64", [])
    yield ("musl-gcc", subject, folder, ["musl-gcc", "-O2"], "c", "x86_64", [])


def machines(folder):
    for compiler, language, machine, runner in (
            ("aarch64-linux-gnu-gcc", "c", "aarch64", ["qemu-aarch64"]),
            ("aarch64-linux-gnu-g++", "c++", "aarch64", ["qemu-aarch64"]),
            ("i686-linux-gnu-gcc", "c", "i386", [])):
        for flags in (["-O0"], ["-O2"], ["-O2", "-fPIE", "-static-pie"]):
            link = [] if "-static-pie" in flags else ["-static"]
            yield (f"{compiler} {' '.join(flags)}", subject, folder, [compiler, *flags, *link], language,
                   machine, runner)


def wide_enumerators(folder, *command):
    path = pathlib.Path(folder) / "subject"
    # Enumerators that are no int are an extension of C.
    run(*command, *STRICT, "-Wno-pedantic", INCLUDE, SDT / "values/enumerators.c", "-o", path)
    enumerators = Elf(path).typed()[1]
    assert enumerators == WIDE, enumerators


def enumerators(folder):
    for compiler in ("gcc", "clang", "g++ -x c++ -std=c++11", "clang++ -x c++ -std=c++11", "aarch64-linux-gnu-gcc",
                     "aarch64-linux-gnu-g++ -x c++", "i686-linux-gnu-gcc"):
        for level in ("-O0", "-O2", "-O2 -fPIC"):
            yield (f"enumerators, {compiler} {level}", wide_enumerators, folder, *compiler.split(), *level.split())


def two_modules(folder, compiler, linker):
    library, program = (pathlib.Path(folder) / name for name in ("libmodule.so", "program"))
    common = [compiler, f"-fuse-ld={linker}", "-O2", *STRICT, INCLUDE]
    run(*common, "-fPIC", "-shared", SDT / "modules/library.c", "-o", library)
    run(*common, "-rdynamic", SDT / "modules/program.c", library, f"-Wl,-rpath,{folder}", "-o", program)
    run(program)


def modules(folder):
    for compiler in ("gcc", "clang"):
        for linker in ("bfd", "gold", "lld", "mold"):
            yield (f"semaphores of two modules, {compiler}, {linker}", two_modules, folder, compiler, linker)


def everything(folder):
    """clang's every warning, but for those that the subject itself gives."""
    own = ["-Wno-missing-variable-declarations", "-Wno-padded", "-Wno-c++98-compat",
           "-Wno-c++98-compat-pedantic", "-Wno-declaration-after-statement", "-Wno-unused-macros",
           "-Wno-old-style-cast"]
    for compiler, language in (("clang", "c"), ("clang++", "c++")):
        yield (f"{compiler} -Weverything", subject, folder, [compiler, "-O1", "-Weverything", *own],
               language, "x86_64", [])


def main():
    with tempfile.TemporaryDirectory() as folder:
        return cases(lambda: native(folder), lambda: flags(folder), lambda: machines(folder), lambda: modules(folder), lambda: everything(folder),
                     lambda: enumerators(folder))


if __name__ == "__main__":
    sys.exit(main())
