#!/usr/bin/env python3
"""Checks that names of files are demangled in worker processes alone.

usage: demangling.py SOURCE_ROOT
symbol::demangled() leaves a name as it is in any process but a worker (Demangle.OnlyAWorkerDemangles). This finds
what would circumvent that or rely on it in vain: a demangler used elsewhere than in demangle.cpp, a caller of
demangled_anywhere(), and callers of demangled() in files that have no task of a worker.
"""
import pathlib
import re
import sys

DEMANGLERS = re.compile(r"__cxa_demangle|(rust|cplus)_demangle|rust_name\(|demangled_anywhere")
CALLS = re.compile(r"\bdemangled\(")
DEFINED_IN = {"demangle", "rust_names"}
# Files of which a task, or a service, is run by a worker. No file of cli/ may be here.
TASKS = re.compile(r"\b((Parser::of_this_thread\(\)|parser)\s*\.ask<|worker::Service\b)")
PARTS_OF_TASKS = {"file_names", "signature"}  # of naming_service.cpp, a service; of functions.cpp


def code_of(file):
    """Its text without comments."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", file.read_text(), flags=re.S)


def offences(root):
    calls = 0
    for file in sorted((root / "src").rglob("*")):
        if file.suffix not in {".hpp", ".cpp", ".h", ".c"} or file.stem in DEFINED_IN:
            continue
        code = code_of(file)
        where = file.relative_to(root)
        if match := DEMANGLERS.search(code):
            yield f"{where}: {match[0]}: a demangler that runs in any process"
        if not CALLS.search(code):
            continue
        calls += 1
        if "cli" in file.parts:
            yield f"{where}: the command demangles nothing: what a worker returns has both names"
        elif not TASKS.search(code) and file.stem not in PARTS_OF_TASKS:
            yield f"{where}: demangled() in a file without a task of a worker"
    if calls == 0:
        yield "src: nothing calls demangled(): is this check out of date?"


def main():
    found = list(offences(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "names are demangled in workers alone")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
