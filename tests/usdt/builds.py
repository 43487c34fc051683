#!/usr/bin/env python3
"""Builds as others have them, with vitrine under the name dtrace: their probes fire.

    perl     the step over the main program's objects fails, because they call no probe; the makefile then compiles an
             empty file in place of a probe object. The probes are in an archive, with a probe object of their own
    libvirt  definitions with comments `# …`, of which some begin like directives; the step has no objects
    glib     the same, in a shared library

    builds.py SOURCE_ROOT VITRINE
"""
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


def main(_root, vitrine):
    for build in (perl, without_objects):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "dtrace").symlink_to(vitrine)
            build(vitrine, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
