#!/usr/bin/env python3
"""A traced program's arguments are what the program says they are: every type, from every place that
compilers keep values in, by `vitrine trace`.

usage: values.py SOURCE_ROOT VITRINE
"""
import itertools
import json
import pathlib
import sys
import tempfile

from build import INCLUDE, SDT, STRICT, cases, run

VITRINE = sys.argv[2]


def number(value):
    """Numbers beyond 2^53 are shown as decimal strings."""
    return int(value) if isinstance(value, str) and value.lstrip("-").isdigit() else value


def traced(folder, source, least, command):
    path = pathlib.Path(folder) / "subject"
    said_path = pathlib.Path(folder) / "said"
    run(*command, INCLUDE, SDT / "values" / source, "-o", path)
    shown = run(VITRINE, "trace", "values:*", "--json", "--exec", "--", path, said_path).splitlines()
    said = [json.loads(line) for line in said_path.read_text().splitlines()]
    shown = [json.loads(line) for line in shown]
    assert len(said) >= least, said
    for fired, event in itertools.zip_longest(said, shown):
        assert fired and event and event["probe"] == fired["probe"], f"fired {fired}, shown {event}"
        arguments = [number(a) for a in event["args"]]
        assert arguments == fired["args"], f"{fired['probe']}: fired with {fired['args']}, shown {event['args']}"


def conditions(folder):
    path = pathlib.Path(folder) / "subject"
    run("gcc", INCLUDE, SDT / "values/enumerators.c", "-o", path)
    for condition in ("e == u64_most", "e > 9223372036854775807", "e + 0 > 9223372036854775807"):
        shown = run(VITRINE, "trace", "values:variable", "--where", condition, "--json", "--exec", "--", path,
                    pathlib.Path(folder) / "said").splitlines()
        shown = [json.loads(line)["args"] for line in shown]
        assert shown == [["u64_most"]], (condition, shown)


def once(folder, *command):
    path = pathlib.Path(folder) / "subject"
    run(*command, *STRICT, INCLUDE, SDT / "values/once.c", "-o", path)
    run(path)


def main():
    with tempfile.TemporaryDirectory() as folder:
        def programs():
            for compiler, level, kind in itertools.product(
                    ("gcc", "clang", "g++", "clang++"), ("-O0", "-O1", "-O2", "-O3"), ("-pie", "-no-pie")):
                if kind == "-no-pie" and level in ("-O1", "-O3"):
                    continue
                code = ["-fPIE", "-pie"] if kind == "-pie" else ["-fno-pie", "-no-pie"]
                language = ["-x", "c++"] if "++" in compiler else []
                yield (f"{compiler} {level} {kind}", traced, folder, "values.c", 23,
                       [compiler, level, *code, *language])

        def fields():
            for compiler, level, header in itertools.product(
                    (["gcc"], ["gcc", "-std=c99"], ["clang"], ["g++", "-std=c++11"], ["g++"], ["clang++", "-std=c++11"], ["clang++"]),
                    ("-O0", "-O2"), ([], ["-DCOMPAT"])):
                language = ["-x", "c++"] if "++" in compiler[0] else []
                command = [*compiler, level, *header]
                yield (f"fields, {' '.join(command)}", traced, folder, "fields.c", 4 if header else 8,
                       [*command, *STRICT, "-Wno-pedantic", *language])

        def enumerators():
            for compiler, level in itertools.product(
                    (["gcc"], ["gcc", "-fPIC"], ["clang"], ["g++", "-std=c++11"], ["g++", "-std=c++20", "-fPIC"],
                     ["clang++", "-std=c++11"], ["clang++", "-std=c++20", "-fno-integrated-as"]), ("-O0", "-O2")):
                language = ["-x", "c++"] if "++" in compiler[0] else []
                command = [*compiler, level]
                # Enumerators that are no int are an extension of C.
                yield (f"enumerators, {' '.join(command)}", traced, folder, "enumerators.c", 43,
                       [*command, *STRICT, "-Wno-pedantic", *language])
            yield "enumerators, large ones in conditions", conditions, folder

        def temporaries():
            for compiler, standard, level in itertools.product(
                    ("g++", "clang++"), ("c++14", "c++20"), ("-O0", "-O2", "-O2 -flto -fno-exceptions -fno-rtti")):
                linker = ["-fuse-ld=lld"] if compiler == "clang++" else []
                yield (f"temporaries, {compiler} {standard} {level}", traced, folder, "temporaries.cpp", 6,
                       [compiler, *linker, f"-std={standard}", *level.split(), *STRICT])

        def evaluated_once():
            for compiler, level in itertools.product(("gcc", "clang", "g++", "clang++"), ("-O0", "-O2")):
                language = ["-x", "c++"] if "++" in compiler else []
                yield (f"once, {compiler} {level}", once, folder, compiler, level, *language)

        return cases(evaluated_once, temporaries, programs, fields, enumerators)


if __name__ == "__main__":
    sys.exit(main())
