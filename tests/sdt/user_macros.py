#!/usr/bin/env python3
"""Macros of the program cannot break a probe: every word of our headers is defined to something that
compiles nowhere, before or after they are included, and probes are fired.

usage: user_macros.py SOURCE_ROOT [VITRINE]

Words come from the headers themselves. Left out are keywords, reserved words, words that begin with our
prefixes, the one switch of <sys/sdt.h>, and what else is listed here with its reason.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

from build import INCLUDE, ROOT, SDT, STRICT, Failure, cases, run
from notes import Elf

GARBAGE = ") my_macro_was_expanded ( ] }"
KEYWORDS = set("""
    alignas alignof and asm auto bool break case catch char char16_t char32_t char8_t class co_await
    co_return co_yield concept const const_cast consteval constexpr constinit continue decltype default
    delete do double dynamic_cast else enum explicit export extern false final float for friend goto if
    inline int long mutable namespace new noexcept not nullptr operator or override private protected
    public register reinterpret_cast requires restrict return short signed sizeof static static_assert
    static_cast struct switch template this throw true try typedef typeid typename union unsigned using
    virtual void volatile wchar_t while defined""".split())
# Names of the standard library that sdt_types.hpp uses while it is read: a program that has defined them
# by then cannot include <type_traits> either.
STANDARD = set("""
    std byte conditional data decay declval enable_if false_type integral_constant is_class is_enum
    is_floating_point is_lvalue_reference is_pointer is_same is_scalar is_signed is_union nullptr_t
    remove_cv remove_pointer remove_reference size size_t true_type type underlying_type value""".split())
SWITCH = {"STAP_SDT_ARG_CONSTRAINT"}
# Words that earlier versions of the headers pasted and passed, and others that programs like to have.
MORE = set("""
    NAME STRING TYPE KIND BIND OPERANDS AS_ENUM AS_VALUE AS_TEXT AS_BYTES TEXT VALUE FIELD U8 U16 U32 U64
    S8 I8 F32 F64 BOOL BYTES ENUM T F N X _ shop order none plain lazy lazy_order forms shared
    shared_order nop byte asciz pushsection popsection note probes stapsdt vitrine weak hidden
    nor nr g comdat section used retain visibility artificial always_inline linux unix""".split())
HEADERS = ROOT / "include/vitrine"


def words(*paths):
    """The identifiers of files that a program could have as macros."""
    found = set()
    for path in paths:
        text = re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', " ", path.read_text(), flags=re.S)
        text = re.sub(r"^[ \t]*#[ \t]*(include|error|pragma)[^\n]*", " ", text, flags=re.M)
        text = re.sub(r"^([ \t]*#[ \t]*)\w+", r"\1", text, flags=re.M)
        # Not what is part of a number (8byte, 990b).
        found |= set(re.findall(r"(?<!\w)([A-Za-z_]\w*)", text))
    return {w for w in found if w not in KEYWORDS and not re.match(r"__|_[A-Z]|VITRINE_|vitrine_", w)}


def define(path, chosen):
    path.write_text("".join(f"#undef {w}\n#define {w} {GARBAGE}\n" for w in sorted(chosen)))


SDT_C = [HEADERS / "sdt.h", *(HEADERS / "detail" / f"sdt_{n}.h" for n in ("arguments", "macros", "note", "typed"))]


def sdt_words(language):
    types = HEADERS / "detail" / ("sdt_types.hpp" if language == "c++" else "sdt_types.h")
    return (words(*SDT_C, types) | MORE) - SWITCH


def probes(folder, command, language, where):
    chosen = sdt_words(language)
    assert {"nop", "pushsection", "note", "name", "order"} <= chosen, sorted(chosen)
    before = chosen - (STANDARD if language == "c++" else set()) if where == "before" else set()
    define(folder / "words_before.h", before)
    define(folder / "words_after.h", chosen - before)
    run(*command, *STRICT, "-Wno-reserved-id-macro", INCLUDE, f"-I{folder}", "-x", language,
        SDT / "macros/probes.c", "-o", folder / "program")
    elf = Elf(folder / "program")
    found = sorted((p.provider, p.name) for p in elf.probes())
    wanted = ["forms", "lazy", "lazy_order", "none", "order", "plain", "shared", "shared_order"]
    assert found == [("shop", n) for n in wanted], found
    typed, enumerators = elf.typed()
    names = {t.name: [a[1] for a in t.arguments] for t in typed}
    assert names == {"order": ["my_number", "my_name", "my_price"], "lazy_order": ["my_bytes"],
                     "forms": ["my_colour_now", "my_data"], "shared_order": ["my_number"]}, names
    assert enumerators == {"my_colour": {3: "my_red", 7: "my_green"}}, enumerators
    run(folder / "program")


def must_fail(folder, command, language):
    """The test can fail: a word that the program itself uses is not allowed to be a macro."""
    define(folder / "words_before.h", {"my_number"})
    define(folder / "words_after.h", set())
    done = subprocess.run([*command, INCLUDE, f"-I{folder}", "-x", language, str(SDT / "macros/probes.c"), "-c",
                           "-o", str(folder / "fails.o")], capture_output=True)
    if not done.returncode:
        raise Failure("a garbage macro was not noticed")


def capitals(folder, command, headers):
    """C++ and C interfaces: words in capitals, of which alone a program may expect that they are macros, are
    not among the words of our headers. (Their other words are declared names, which the program spells too:
    no header of C++ survives a macro of such a name.)"""
    paths = [HEADERS / h if h != "customlabels.h" else HEADERS.parent / h for h in headers]
    inside = [HEADERS / "detail" / h for h in ("slot.hpp", "memo.hpp")]
    chosen = {w for w in words(*paths, *inside) | MORE if re.fullmatch(r"[A-Z][A-Z0-9_]*", w)}
    chosen -= {w for w in chosen if w.startswith(("BOOST_", "CUSTOM"))}
    define(folder / "words_before.h", chosen)
    source = folder / "capitals.cpp"
    standard = ["array", "cstddef", "cstdint", "cstring", "initializer_list", "optional", "string", "string_view",
                "type_traits", "utility", "variant", "vector", *(["coroutine"] if "coroutine.hpp" in headers else [])]
    source.write_text("".join(f"#include <{h}>\n" for h in standard) + '#include "words_before.h"\n' +
                      "".join(f"#include <{'vitrine/' if h != 'customlabels.h' else ''}{h}>\n" for h in headers) +
                      "int main() {\n  vitrine::labels::Scope scope{{vitrine::labels::Key{\"k\"}, \"v\"}};\n"
                      "  return scope.ok() ? 0 : 1;\n}\n")
    run(*command, INCLUDE, f"-I{folder}", "-c", source, "-o", folder / "capitals.o")


# As <X11/Xlib.h> and what it includes define them.
XLIB = """#define Status int
#define Bool int
#define True 1
#define False 0
#define None 0L
#define Success 0
#define Always 2
#define Above 0
#define Below 1
#define BadValue 2
#define BadAlloc 11
#define CurrentTime 0L
#define Complex 0
"""


def xlib(folder, command, headers):
    """A program may have included Xlib before, and keeps its macros."""
    source = folder / "xlib.cpp"
    (folder / "xlib.h").write_text(XLIB)
    source.write_text('#include "xlib.h"\n' +
                      "".join(f"#include <{'vitrine/' if h != 'customlabels.h' else ''}{h}>\n" for h in headers) +
                      "Status my_status() { return Success; }\n"
                      "int main() {\n  vitrine::labels::Scope scope{{vitrine::labels::Key{\"k\"}, \"v\"}};\n"
                      "  const auto status = scope.status();\n"
                      "  return status && vitrine::context::publish({}) ? my_status() : 1;\n}\n")
    run(*command, "-Wall", "-Wextra", "-Werror", INCLUDE, f"-I{folder}", "-c", source, "-o", folder / "xlib.o")


DEFINITION = """provider shop {
  probe order(int id, const char *item, uint64_t price);
  probe none();
};
"""


def generated(folder, compiler, language, vitrine, protocol):
    """What `vitrine usdt header` writes."""
    (folder / "shop.d").write_text(DEFINITION)
    run(vitrine, "usdt", "header", f"--enabled={protocol}", "-s", folder / "shop.d", "-o", folder / "shop.h")
    # uint64_t is the definition's own word, size_t and the like are of the headers it includes.
    chosen = (words(folder / "shop.h") | MORE) - {"uint64_t"}
    chosen = {w for w in chosen if not w.startswith("SHOP_")}
    define(folder / "words_before.h", chosen)
    source = folder / "generated.c"
    source.write_text("#include <stdint.h>\n#include <unistd.h>\n#include \"words_before.h\"\n#include \"shop.h\"\n"
                      "void my_function(void) {\n  if (SHOP_ORDER_ENABLED()) SHOP_ORDER(1, \"x\", 2);\n"
                      "  SHOP_NONE();\n}\n")
    run(compiler, "-Wall", "-Wextra", "-Werror", f"-I{folder}", "-x", language, "-c", source, "-o", folder / "g.o")


def main():
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)

        def sdt():
            for compiler, language, standards in (
                    ("gcc", "c", ["c99", "gnu17"]), ("clang", "c", ["c99", "gnu17"]),
                    ("g++", "c++", ["c++11", "c++17", "c++20"]), ("clang++", "c++", ["c++11", "c++17", "c++20"])):
                for standard in standards:
                    command = [compiler, f"-std={standard}", "-O1"]
                    for where in ("before", "after"):
                        yield f"{' '.join(command)}, words defined {where}", probes, folder, command, language, where
                yield f"{compiler}: notices", must_fail, folder, [compiler], language

        def interfaces():
            for compiler in ("g++", "clang++"):
                for standard, headers in (
                        ("c++17", ["labels.hpp", "context.hpp", "customlabels.h"]),
                        ("c++20", ["labels.hpp", "context.hpp", "coroutine.hpp", "fiber.hpp", "customlabels.h"])):
                    command = [compiler, f"-std={standard}"]
                    yield f"{' '.join(command)}: capitals", capitals, folder, command, headers
                    yield f"{' '.join(command)}: Xlib", xlib, folder, command, headers

        def made():
            for vitrine in sys.argv[2:3]:
                for compiler, language in (("gcc", "c"), ("g++", "c++"), ("clang", "c"), ("clang++", "c++")):
                    for protocol in ("semaphore", "return-value", "pointer"):
                        yield (f"usdt header, {compiler}, {protocol}", generated, folder, compiler, language, vitrine,
                               protocol)

        return cases(sdt, interfaces, made)


sys.exit(main())
