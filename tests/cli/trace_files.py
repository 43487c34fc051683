#!/usr/bin/env python3
"""vitrine trace: what it says of processes that publish no labels, of processes that use another file of the same
path, and of a process that has loaded one file twice; that vitrine's own processes are left out.

    trace_files.py VITRINE CC INCLUDE
"""
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

PROGRAM = """#include <stdio.h>
#include <vitrine/sdt.h>
int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  puts("ready");
  for (int n = 0; getchar() != EOF; ++n) VITRINE_PROBE(plain, fired, n);
  return 0;
}
"""

LIBRARY = """#include <vitrine/sdt.h>
void fire(int n) { VITRINE_LAZY_PROBE(twice, guarded, n); }
"""

LOADER = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  void* first = dlopen(argv[1], RTLD_NOW);
  void* second = argc > 2 ? dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW) : first;
  if (!first || !second) return 1;
  puts("ready");
  void (*fire)(int);
  *(void**)&fire = dlsym(second, "fire");
  for (int n = 0; getchar() != EOF; ++n) fire(n);
  return 0;
}
"""


class Target:
    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def fire(self):
        self.process.stdin.write("x")
        self.process.stdin.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def no_labels(vitrine, program):
    """A process that begins after the trace is unknown to the kernel when it fires first."""
    with subprocess.Popen([vitrine, "trace", program, "plain:*", "--limit", "2"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as tracer:
        assert "tracing 1 probe" in tracer.stderr.readline()
        with Target(program) as target:
            for n in range(2):
                target.fire()
                line = tracer.stdout.readline()
                assert f"plain:fired({n})" in line, line
                assert "no labels" not in line, line
        assert tracer.wait() == 0


def replaced(vitrine, program):
    done = subprocess.run([vitrine, "trace", program, "plain:*", "--duration", "50ms"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr


def loaded(vitrine, program, *arguments, beside=()):
    """The notes of a trace of a process with these arguments; before it, one with those of `beside`."""
    with contextlib.ExitStack() as stack:
        targets = [stack.enter_context(Target(program, *of)) for of in (beside, arguments) if of]
        pids = [str(target.process.pid) for target in targets]
        done = subprocess.run([vitrine, "trace", *pids, "twice:*", "--duration", "50ms"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stderr


def loaded_twice(vitrine, cc, include, folder):
    """The kernel sets the semaphore of one of the two."""
    library, program = (os.path.join(folder, name) for name in ("libtwice.so", "loader"))
    for path, text, options in ((library, LIBRARY, ["-shared", "-fPIC"]), (program, LOADER, ["-ldl"])):
        with open(path + ".c", "w") as file:
            file.write(text)
        subprocess.run([cc, "-O1", "-I", include, "-o", path, path + ".c", *options], check=True)
    assert "libtwice.so is loaded 2 times" in loaded(vitrine, program, library, "twice")
    assert "loaded" not in loaded(vitrine, program, library)
    both = loaded(vitrine, program, library, "twice", beside=(library,))
    assert both.count("libtwice.so is loaded 2 times") == 1, both


def without_itself(vitrine):
    """Each line that vitrine prints would be the next fire, and its children answer it by the same functions."""
    functions = [f"func:libc:{name}" for name in ("write", "read", "send*", "recv*")]
    with subprocess.Popen(["sh", "-c", "while echo line; do sleep 0.01; done"], stdout=subprocess.DEVNULL) as writer:
        with subprocess.Popen([vitrine, "trace", *functions, "--json", "--limit", "200"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True) as tracer:
            events = [json.loads(tracer.stdout.readline())]
            with open(f"/proc/{tracer.pid}/task/{tracer.pid}/children") as file:
                own = {tracer.pid, *(int(pid) for pid in file.read().split())}
            events += [json.loads(line) for line in tracer.stdout]
            assert tracer.wait() == 0
        writer.kill()
    fired = {event["pid"] for event in events if "pid" in event}
    assert writer.pid in fired, fired
    assert not fired & own, (fired, own)
    # One that is named, by another vitrine.
    with subprocess.Popen([vitrine, "labels", str(os.getpid()), "--watch=50ms", "--json"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as other:
        done = subprocess.run([vitrine, "trace", str(other.pid), "func:libc:*poll*", "--limit", "1", "--duration", "20s",
                               "--json"], capture_output=True, text=True)
        other.terminate()
    assert str(other.pid) in done.stdout, done


def main(vitrine, cc, include):
    without_itself(vitrine)
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(os.path.realpath(folder), "plain")
        with open(program + ".c", "w") as file:
            file.write(PROGRAM)
        subprocess.run([cc, "-O1", "-I", include, "-o", program, program + ".c"], check=True)
        no_labels(vitrine, program)
        loaded_twice(vitrine, cc, include, os.path.realpath(folder))
        with Target(program) as before:
            assert "another file" not in replaced(vitrine, program)
            shutil.copy(program, program + ".new")
            os.rename(program + ".new", program)
            with Target(program) as after:
                said = replaced(vitrine, program)
                assert f"process {before.process.pid} uses another file of the path {program}" in said, said
                assert str(after.process.pid) not in said, said


if __name__ == "__main__":
    main(*sys.argv[1:])
