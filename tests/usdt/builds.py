#!/usr/bin/env python3
"""Builds as others have them, with vitrine under the name dtrace: their probes fire.

    perl     the step over the main program's objects fails, because they call no probe; the makefile then compiles an
             empty file in place of a probe object. The probes are in an archive, with a probe object of their own
    libvirt  definitions with comments `# …`, of which some begin like directives; the step has no objects
    glib     the same, in a shared library
    object   an object library of CMake with several definitions: their steps run one after another
    configurations   several ones of CMake, built at once: each has its own probes

    builds.py SOURCE_ROOT VITRINE
"""
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

PERL_D = """provider perl {
  probe sub__entry(const char *, const char *, int, const char *);
  probe phase__change(const char *, const char *);
};
"""
PERL_LIB = """#include "perldtrace.h"
void run_sub(int line);
void run_sub(int line) {
  if (PERL_SUB_ENTRY_ENABLED()) PERL_SUB_ENTRY("main", "perl.c", line, "pkg");
  PERL_PHASE_CHANGE("RUN", "START");
}
"""
PERL_MAIN = """void run_sub(int line);
int main(void) { run_sub(12); return 0; }
"""
PERL_MAKEFILE = """all: perl
perldtrace.h: perldtrace.d
	$(DTRACE) -h -s perldtrace.d -o $@
perl.o: perl.c perldtrace.h
	$(CC) -O2 -c perl.c
perlmain.o: perlmain.c
	$(CC) -O2 -c perlmain.c
dtrace_perllib.o: perldtrace.d perl.o
	$(DTRACE) -G -s perldtrace.d -o $@ perl.o
dtrace_main.o: perldtrace.d perlmain.o
	$(DTRACE) -G -s perldtrace.d -o $@ perlmain.o || \\
	  ( echo "No probes in perlmain.o, generating a dummy dtrace_main.o" && \\
	    echo 'int dtrace_dummy;' > dtrace_main.c && $(CC) -c dtrace_main.c )
libperl.a: perl.o dtrace_perllib.o
	ar rcs $@ perl.o dtrace_perllib.o
perl: perlmain.o dtrace_main.o libperl.a
	$(CC) -o $@ perlmain.o dtrace_main.o libperl.a
"""
LIBVIRT_D = """provider libvirt {
	# file: vireventpoll.c
	# prefix: event_poll
	# if the socket is closed, or
	# else by the caller
	probe event_poll_add_handle(int watch, int fd, int events, void *cb, void *opaque, void *ff);
	# 12 of these
	probe event_poll_run(int nfds, int timeout);
};
"""
LIBVIRT_C = """#include "libvirt_probes.h"
#ifdef LIBRARY
int entry(void);
int entry(void)
#else
int main(void)
#endif
{
  if (LIBVIRT_EVENT_POLL_ADD_HANDLE_ENABLED()) LIBVIRT_EVENT_POLL_ADD_HANDLE(1, 2, 3, 0, 0, 0);
  LIBVIRT_EVENT_POLL_RUN(4, 5);
  return 0;
}
"""


# A step of `first` that is slow: one that does not wait for it is done before.
STEP = """#!/bin/sh
[ "$2" = link ] || exec {vitrine} "$@"
case "$*" in *first.d*) sleep 1;; esac
{vitrine} "$@" && echo "$*" | grep -o '[a-z]*[.]d ' >> {folder}/order
"""
OBJECT_CMAKE = """cmake_minimum_required(VERSION 3.20)
project(object C)
set(VITRINE_COMMAND {folder}/step)
add_executable(vitrine::vitrine IMPORTED)  # as a package for another machine has it
set_target_properties(vitrine::vitrine PROPERTIES IMPORTED_LOCATION /bin/false)
include({root}/cmake/VitrineUsdt.cmake)
add_library(parts OBJECT one.c two.c)
vitrine_usdt_provider(parts first.d second.d)
vitrine_usdt_provider(parts third.d)
add_executable(app main.c)
target_link_libraries(app parts)
"""
OBJECT_C = """#include "first.h"
#include "second.h"
#include "third.h"
void NAME(int n);
void NAME(int n) { FIRST_GO(n); SECOND_GO(n + 1); THIRD_GO(n + 2); }
"""


CONFIGURATIONS_CMAKE = """cmake_minimum_required(VERSION 3.20)
project(configurations C)
set(VITRINE_COMMAND {vitrine})
include({root}/cmake/VitrineUsdt.cmake)
add_library(parts OBJECT parts.c)
vitrine_usdt_provider(parts part.d)
add_library(archive STATIC archive.c)
vitrine_usdt_provider(archive archived.d)
add_executable(app main.c)
vitrine_usdt_provider(app whole.d)
target_link_libraries(app parts archive)
"""


def run(folder, *command, **options):
    done = subprocess.run([str(word) for word in command], cwd=folder, capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def fires(vitrine, folder, program, pattern):
    """What a trace of the program sees."""
    done = subprocess.run([vitrine, "trace", pattern, "--json", "--exec", "--", folder / program], capture_output=True,
                          text=True, env={**os.environ, "LD_LIBRARY_PATH": str(folder)})
    assert done.returncode == 0, done.stderr
    return [(event["probe"], event["args"]) for event in map(json.loads, done.stdout.splitlines())]


def perl(vitrine, folder):
    for name, text in (("perldtrace.d", PERL_D), ("perl.c", PERL_LIB), ("perlmain.c", PERL_MAIN),
                       ("Makefile", PERL_MAKEFILE)):
        (folder / name).write_text(text)
    said = run(folder, "make", f"DTRACE={folder}/dtrace", "CC=gcc")
    assert "none of the objects calls a declared probe" in said and "generating a dummy" in said, said
    assert fires(vitrine, folder, "perl", "perl:*") == [("perl:sub-entry", ["main", "perl.c", 12, "pkg"]),
                                                        ("perl:phase-change", ["RUN", "START"])]


def without_objects(vitrine, folder):
    (folder / "libvirt_probes.d").write_text(LIBVIRT_D)
    (folder / "main.c").write_text(LIBVIRT_C)
    run(folder, "./dtrace", "-o", "libvirt_probes.h", "-h", "-s", "libvirt_probes.d")
    run(folder, "./dtrace", "-o", "libvirt_probes.o", "-G", "-s", "libvirt_probes.d")
    wanted = [("libvirt:event_poll_add_handle", [1, 2, 3, "0x0", "0x0", "0x0"]), ("libvirt:event_poll_run", [4, 5])]
    run(folder, "gcc", "-O2", "-o", "daemon", "main.c", "libvirt_probes.o")
    assert fires(vitrine, folder, "daemon", "libvirt:*") == wanted
    run(folder, "gcc", "-O2", "-fPIC", "-DLIBRARY", "-shared", "-o", "libentry.so", "main.c", "libvirt_probes.o")
    (folder / "host.c").write_text("int entry(void);\nint main(void) { return entry(); }\n")
    run(folder, "gcc", "-o", "host", "host.c", "-L.", "-lentry")
    assert fires(vitrine, folder, "host", "libvirt:*") == wanted


def object_library(root, generator, vitrine, folder):
    for name in ("first", "second", "third"):
        (folder / f"{name}.d").write_text(f"provider {name} {{ probe go(int); }};\n")
    for name in ("one", "two"):
        (folder / f"{name}.c").write_text(OBJECT_C.replace("NAME", name))
    (folder / "main.c").write_text("void one(int);\nvoid two(int);\nint main(void) { one(1); two(7); return 0; }\n")
    (folder / "step").write_text(STEP.format(vitrine=vitrine, folder=folder))
    (folder / "step").chmod(0o755)
    (folder / "CMakeLists.txt").write_text(OBJECT_CMAKE.format(folder=folder, root=root))
    run(folder, "cmake", "-G", generator, "-S", ".", "-B", "b", "-DCMAKE_BUILD_TYPE=Release")
    run(folder, "cmake", "--build", "b", "-j3")
    steps = ["first.d", "second.d", "third.d"]
    assert (folder / "order").read_text().split() == steps, (folder / "order").read_text()
    for path in folder.glob("b/**/*.c.o"):
        assert "R_X86_64_PLT32" not in run(folder, "readelf", "-rW", path) or path.name == "main.c.o", path
    fired = fires(vitrine, folder, "b/app", "*:go")
    assert fired == [(f"{name}:go", [n + i]) for n in (1, 7) for i, name in enumerate(("first", "second", "third"))]
    run(folder, "cmake", "--build", "b", "-j3")
    assert (folder / "order").read_text().split() == steps, "steps ran again, although nothing changed"


def configurations(root, vitrine, folder):
    for name, calls in (("part", ""), ("archived", ""), ("whole", "part(1); archived(2); ")):
        function = "int main(void)" if name == "whole" else f"void {name}(int n)"
        file = {"part": "parts", "archived": "archive", "whole": "main"}[name]
        (folder / f"{name}.d").write_text(f"provider {name} {{ probe go(int); }};\n")
        (folder / f"{file}.c").write_text(
            f'#include "{name}.h"\nvoid part(int);\nvoid archived(int);\n'
            f"{function} {{ {calls}{name.upper()}_GO({'3' if calls else 'n'}); {'return 0;' if calls else ''} }}\n")
    (folder / "CMakeLists.txt").write_text(CONFIGURATIONS_CMAKE.format(vitrine=vitrine, root=root))
    run(folder, "cmake", "-G", "Ninja Multi-Config", "-S", ".", "-B", "b", "-DCMAKE_CROSS_CONFIGS=all",
        "-DCMAKE_CONFIGURATION_TYPES=Debug;Release")
    run(folder, "ninja", "-C", "b", "all:all")
    for configuration in ("Debug", "Release"):
        program = f"b/{configuration}/app"
        assert fires(vitrine, folder, program, "*:go") == [("part:go", [1]), ("archived:go", [2]), ("whole:go", [3])]
        for line in run(folder, vitrine, "probes", program, "--json").splitlines():
            probe = json.loads(line)
            assert any(not site.get("stub") for site in probe["sites"]), f"{program}: calls were not replaced: {line}"
        run(folder, vitrine, "check", program)
    assert "no work to do" in run(folder, "ninja", "-C", "b", "all:all")


def main(root, vitrine):
    for build in (perl, without_objects, functools.partial(object_library, root, "Ninja"),
                  functools.partial(object_library, root, "Unix Makefiles"),
                  functools.partial(configurations, root)):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "dtrace").symlink_to(vitrine)
            build(vitrine, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
