#!/usr/bin/env python3
"""Puts known defects back into the publishing library, one at a time: the random programs, the explorer or
another test of the publishing side must find each.

usage: defects.py SOURCE_ROOT BUILD_DIRECTORY

Each defect is a change of one source file. The script compiles that file as the build does, links the tests
against a copy of the library with this object, and runs them until one reports a failure. It changes nothing in
SOURCE_ROOT or BUILD_DIRECTORY.
"""
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

TIMEOUT = 300  # seconds for one test with one defect

# (defect, file, text, replacement, tests that must each find it)
DEFECTS = [
    ("a coroutine that ends while it runs leaves its labels in force", "in_force.cpp",
     "if (segment.is_running()) return publish::end_segment(self, segment);",
     "if (segment.is_running()) return;", ["programs_test", "ownership_test"]),
    ("an exception out of a coroutine leaves its labels in force", "in_force.cpp",
     "while (self.segment != nullptr && self.segment->abandoned()) {", "while (false) {",
     ["programs_test", "ownership_test"]),
    ("a scope that ends out of order stays in force", "in_force.cpp",
     "if (!stands_for(*block, place.segment(), scope)) continue;", "continue;",
     ["programs_test", "ownership_test"]),
    ("an attachment that ends out of order takes the scopes above with it", "in_force.cpp",
     "move(self, place, nullptr, segment.outer);", "place.set(segment.outer);", ["programs_test"]),
    ("an attachment that ends below another one stays in force", "in_force.cpp",
     "take_out(self, place);\n  end_node(self, segment);", "end_node(self, segment);",
     ["programs_test", "ownership_test"]),
    ("the end of a scope below labels that were moved is not found", "in_force.cpp",
     "return what.of == scope.block && what.segment == scope.segment;", "return false;",
     ["programs_test"]),
    ("a forked child shows the labels of its parent's resumer", "in_force.cpp",
     "segment->outer = Words{0, 0};\n    segment->base = nullptr;", "",
     ["ownership_test"]),
    ("a change of a handle's count ignores that a handler changed it meanwhile", "handle/handle.cpp",
     "return local_compare_exchange(handle.now, {from.storage(), from.count}, {to.storage(), to.count});",
     "{ handle.now.second = to.count; handle.now.first = to.storage(); return true; }", ["explorer_test"]),
    ("a handle's count is its capacity", "handle/handle.cpp",
     "__atomic_store_n(&handle->now.second, version->count,",
     "__atomic_store_n(&handle->now.second, capacity,", ["programs_test"]),
    ("what the program assigned to the slot is not repaired", "handle/use.cpp",
     "if (!same(now, right)) labels::detail::put_in_force(self, right);", "", ["handle_test"]),
]


def compile_command(build, source):
    """The command that compiles `source` for the static library, and the object's path."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if entry["file"] == str(source) and "/vitrine_publish.dir/" in entry["command"]:
            return shlex.split(entry["command"])
    sys.exit(f"defects.py: {build} does not compile {source}")


def with_defect(build, folder, source, text, library):
    """Replaces the object of `source` in `library` by that of `text`."""
    command = compile_command(build, source)
    changed = folder / source.name
    changed.write_text(text)
    output = folder / f"{source.name}.o"
    at = command.index("-o")
    command[at + 1] = str(output)
    command[command.index("-c") + 1] = str(changed)
    command = [word for word in command if word != "-Werror"] + ["-w", "-I", str(source.parent)]
    subprocess.run(command, check=True, cwd=build)
    subprocess.run(["ar", "r", library, output], check=True, stderr=subprocess.DEVNULL)


def link(build, library, test, output):
    lines = subprocess.run(["ninja", "-t", "commands", f"bin/{test}"], cwd=build, check=True, capture_output=True,
                           text=True).stdout.splitlines()
    command = lines[-1].replace(f"-o bin/{test}", f"-o {output}").replace("lib/libvitrine_publish.a", str(library))
    subprocess.run(command, shell=True, cwd=build, check=True)


def finds(program, folder):
    """Whether the test fails: a report, a crash, a sanitizer, a run that does not end."""
    process = subprocess.Popen([program], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True)
    signal.alarm(TIMEOUT)
    try:
        for line in process.stdout:
            if "Failure" in line:
                return True
        return process.wait() != 0
    except TimeoutError:
        return True
    finally:
        signal.alarm(0)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def on_alarm(*_):
    raise TimeoutError


def main():
    root, build = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    signal.signal(signal.SIGALRM, on_alarm)
    missed = 0
    for name, file, text, replacement, tests in DEFECTS:
        source = root / "src/publish" / file
        content = source.read_text()
        if content.count(text) != 1:
            sys.exit(f"defects.py: {file} does not contain exactly once: {text}")
        with tempfile.TemporaryDirectory() as name_of_folder:
            folder = pathlib.Path(name_of_folder)
            library = folder / "libvitrine_publish.a"
            shutil.copy(build / "lib/libvitrine_publish.a", library)
            with_defect(build, folder, source, content.replace(text, replacement), library)
            for test in tests:
                program = folder / test
                link(build, library, test, program)
                found = finds(program, folder)
                missed += not found
                print(f"{'found' if found else 'MISSED'} by {test}: {name}", flush=True)
    print(f"{len(DEFECTS)} defects, {missed} missed")
    return missed != 0


if __name__ == "__main__":
    sys.exit(main())
