#!/usr/bin/env python3
"""Puts known defects back into the publishing library, one at a time: the random programs, the explorer or
another test of the publishing side must find each.

usage: defects.py SOURCE_ROOT [BUILD_DIRECTORY [WORDS...]]

Each defect is a change of source files. The script compiles what depends on them as the build does, links the
tests against a copy of the library with these objects, and runs them until they report a failure. It changes
nothing in SOURCE_ROOT or BUILD_DIRECTORY. WORDS select the defects whose names contain one of them.
Without BUILD_DIRECTORY, it only verifies that the sources contain what it changes.
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

# (defect, [(file, text, replacement)...], tests that must each find it: with the names of some after a colon)
DEFECTS = [
    # A coroutine's end (situations 1 and 2), and its suspensions.
    ("a coroutine that ends while it runs leaves its labels in force", [
        ("src/publish/in_force.cpp",
         "if (segment.is_running()) return publish::end_segment(self, segment);",
         "if (segment.is_running()) return;")], ["programs_test", "ownership_test"]),
    ("an exception out of a coroutine leaves its labels in force", [
        ("src/publish/in_force.cpp",
         "while (self.segment != nullptr && self.segment->abandoned()) {", "while (false) {")],
     ["programs_test", "ownership_test"]),
    ("a hop does not put the resumer's set back", [
        ("include/vitrine/detail/hopper.hpp", "mine.below = &mine;\n  put_in_force(here, mine.outer);",
         "mine.below = &mine;")], ["programs_test", "ownership_test"]),
    ("a suspension that is no hop outlives the coroutine around it", [
        ("src/publish/in_force.cpp", "if (one->coroutine) {\n      publish::Place place(self);",
         "if (false) {\n      publish::Place place(self);")], ["ownership_test"]),
    ("a coroutine leaves a thread on which it does not run", [
        ("src/publish/in_force.cpp", "if (segment.is_running()) return false;", "segment.below = &segment;")],
     ["ownership_test"]),
    # Ends out of order (3 and 4).
    ("a scope that ends out of order stays in force", [
        ("src/publish/in_force.cpp",
         "if (!stands_for(*block, place.segment(), scope)) continue;", "continue;")],
     ["programs_test", "ownership_test"]),
    ("an attachment that ends out of order takes the scopes above with it", [
        ("src/publish/in_force.cpp",
         "move(self, place, nullptr, segment.outer);", "place.set(segment.outer);")], ["programs_test"]),
    ("an attachment that ends below another one stays in force", [
        ("src/publish/in_force.cpp",
         "take_out(self, place);\n  end_node(self, segment);", "end_node(self, segment);")],
     ["programs_test", "ownership_test"]),
    ("the end of a scope below labels that were moved is not found", [
        ("src/publish/in_force.cpp",
         "return what.of == scope.block && what.segment == scope.segment;", "return false;")],
     ["programs_test"]),
    ("a scope that ends out of order edits the set above it, which captures share", [
        ("src/publish/in_force.cpp", "const Built built = rebuild(arena, outer, *next, what);",
         "next->head.set.count = next->own();\n    const Built built{next, labels::Errc::ok};\n"
         "    outer = next->links.words;\n    below = next;\n    continue;"),
        *(SHARED_CAPTURES := [
            ("src/publish/set/kept.cpp", "if (is_kept(block)) {\n    hold_kept(block);\n    return &block;\n  }",
             "{\n    hold_kept(block);\n    return &block;\n  }"),
            ("src/publish/set/kept.cpp", "Kept& kept = Kept::of(block);\n  if",
             "if (!is_kept(block)) return close_use(block.page(), thread().arena);\n"
             "  Kept& kept = Kept::of(block);\n  if"),
            ("src/publish/set/kept.hpp", "Kept::of(block).holds.fetch_add(1, std::memory_order_relaxed);",
             "if (!is_kept(block)) return local_increment(block.page().opened);\n"
             "  Kept::of(block).holds.fetch_add(1, std::memory_order_relaxed);")])],
     ["programs_test", "ownership_test"]),
    # Handles under other threads and signal handlers (5).
    ("a change of a handle's count ignores that a handler changed it meanwhile", [
        ("src/publish/handle/handle.cpp",
         "return local_compare_exchange(handle.now, {from.storage(), from.count}, {to.storage(), to.count});",
         "{ handle.now.second = to.count; handle.now.first = to.storage(); return true; }")],
     ["explorer_test:*handle"]),
    ("a change of a handle's values ignores that a handler changed it meanwhile", [
        ("src/publish/handle/handle.cpp",
         "return local_compare_exchange(handle.now.first, from.storage(), to.storage());",
         "{ handle.now.first = to.storage(); return true; }")], ["explorer_test:*handle"]),
    ("a change of one value ignores that a handler changed the handle meanwhile", [
        ("src/publish/handle/c_interface.cpp",
         "if (__builtin_expect(local_compare_exchange(handle.now.first, storage, storage + moved), 1))",
         "handle.now.first = storage + moved;\n  if (true)")], ["explorer_test:*handle"]),
    ("a change of one value uses a version again that is held", [
        ("src/publish/handle/c_interface.cpp", "if (__builtin_expect(to->is_held(), 0)) return false;", "")],
     ["held_versions_test", "programs_test"]),
    ("a version is held without a look whether it is still in use", [
        ("src/publish/handle/handle.cpp",
         "if (handle.storage() == storage) return version;\n    version->let_go(here);", "return version;")],
     ["held_versions_test"]),
    # Assignment to the slot (6).
    ("what the program assigned to the slot is not repaired", [
        ("src/publish/handle/use.cpp",
         "if (!same(now, right)) labels::detail::put_in_force(self, right);", "")], ["handle_test"]),
    # No memory (7).
    ("a key for which there is no memory ends the program", [
        ("src/publish/set/keys.cpp", "if (memory == nullptr) return nullptr;",
         "if (memory == nullptr) std::abort();")], ["fault_test"]),
    ("a context that cannot be published leaves a lock behind", [
        ("src/publish/context/publisher.cpp",
         "const Lock lock(mutex_);\n  return show_first(make_content(&resource, &options));",
         "pthread_mutex_lock(&mutex_);\n  const Status shown = show_first(make_content(&resource, &options));\n"
         "  if (shown) pthread_mutex_unlock(&mutex_);\n  return shown;")], ["fault_test"]),
    # Sets that are not what they should be (8).
    ("a scope that ends out of order loses the handle below it", [
        ("src/publish/in_force.cpp", "place.set(moved(*arena, place, below, outer));",
         "place.set(moved(*arena, place, below, block_of(outer) != nullptr ? outer : Words{0, 0}));")],
     ["programs_test", "ownership_test"]),
    ("an attachment of a set that could not be made is one of nothing", [
        ("src/publish/in_force.cpp", "if (!set_.ok()) return;",
         "if (!set_.ok()) set_ = Set::make(nullptr, 0, nullptr);")], ["ownership_test"]),
    ("values that are not UTF-8 are in records", [
        ("src/publish/base/bytes.hpp",
         "return __builtin_expect(is_ascii(text.data(), text.size()), 1) || is_utf8(text);",
         "return text.data() != nullptr || true;")], ["record_test"]),
    ("a key that the key map could not take stays out of records", [
        ("src/publish/set/keys.cpp", "note_later_key();\n  else if", ";\n  else if")], ["fault_test"]),
    # Fork (9).
    ("a forked child shows the labels of its parent's resumer", [
        ("src/publish/in_force.cpp",
         "segment->outer = Words{0, 0};\n    segment->base = nullptr;", "")], ["ownership_test"]),
    ("what a bare clone mapped at the context's address passes for the context", [
        ("src/publish/context/mapping.cpp",
         "return readable(header_) && std::memcmp(header_, &shown_, sizeof shown_) == 0;", "return true;")],
     ["context_process_test"]),
    ("a bare clone with the same process ID passes for its parent", [
        ("src/publish/context/publisher.cpp", "if (same_id && !mapping_.present()) return {};",
         "if (same_id) return {};")], ["context_process_test"]),
    # What foreign readers find (10).
    ("a handle's count is its capacity", [
        ("src/publish/handle/handle.cpp",
         "__atomic_store_n(&handle->now.second, version->count,",
         "__atomic_store_n(&handle->now.second, capacity,")], ["programs_test", "handle_test"]),
    ("a label that was removed leaves a null key", [
        ("src/publish/handle/version.cpp",
         "find_label(change.labels, change.count, base[i].key) == nullptr)\n      visit(base[i]);",
         "true)\n      visit(base[i]);"),
        ("src/publish/handle/version.cpp",
         "    string += room_for(label.value.len);\n    ++to;",
         "    string += room_for(label.value.len);\n"
         "    if (find_label(change.labels, change.count, label.key) != nullptr &&\n"
         "        &label >= base && &label < base + count) to->key.buf = nullptr;\n    ++to;")],
     ["handle_test", "explorer_test:*handle"]),
    # Memory (11).
    ("a capture keeps the whole page of its set", SHARED_CAPTURES, ["set_test"]),
    ("a page is used again at once", [
        ("src/publish/base/arena.cpp", "constexpr std::uint32_t quiet_ms = 50;",
         "constexpr std::uint32_t quiet_ms = 0;")], ["steady_state_test"]),
    ("a replaced version is used again at once", [
        ("src/publish/base/cells.hpp",
         "return size_class <= 20 || size_class == record_handle_class ? 16 : 2;",
         "return size_class > 64 ? 1 : 0;")], ["handle_test"]),
    # Memory of threads (12).
    ("what a handler cut is cut again", [
        ("src/publish/base/slab.cpp", "if (free_part.compare_exchange_weak(now, rest, std::memory_order_relaxed))",
         "free_part.store(rest, std::memory_order_relaxed);\n      if (true)")], ["memory_test"]),
    ("a forked child cuts from its parent's slab", [
        ("src/publish/base/slab.cpp", "free_part.store(0, std::memory_order_relaxed);", "")], ["memory_test"]),
    ("slabs have huge pages", [
        ("src/publish/base/slab.cpp",
         "madvise(reinterpret_cast<char*>(start), bytes, MADV_NOHUGEPAGE);", "")], ["memory_test"]),
    ("the arenas of all threads that ended within a second wait", [
        ("src/publish/base/arena.cpp", "(many > max_waiting ? quiet_ms : quarantine_ms)", "quarantine_ms")],
     ["memory_test", "lifecycle_test:ManyThreads.*"]),
    ("the arena of a thread that ended is used again at once", [
        ("src/publish/base/arena.cpp", "(many > max_waiting ? quiet_ms : quarantine_ms)", "0")],
     ["memory_test"]),
    ("an arena that a handler gives back is lost", [
        ("src/publish/base/arena.cpp", "Arena* arena = retired.exchange(nullptr, std::memory_order_acquire);",
         "Arena* arena = retired.load(std::memory_order_acquire);\n"
         "    retired.store(nullptr, std::memory_order_relaxed);")], ["memory_test"]),
    ("a thread touches all queues of its cells", [
        ("src/publish/base/cells.cpp", "cells->last_used = &cells->queue(0);",
         "for (unsigned i = 0; i < size_classes; ++i) cells->queue(i).size_class = i;\n"
         "  cells->last_used = &cells->queue(0);")], ["lifecycle_test:ManyThreads.*"]),
]


def compile_commands(build, part):
    """The commands that compile for a target whose objects' paths have `part`: by source file."""
    return {pathlib.Path(entry["file"]): shlex.split(entry["command"])
            for entry in json.loads((build / "compile_commands.json").read_text()) if part in entry["command"]}


def compile_with(build, folder, command, source, output):
    """Compiles `source` by `command`, with changed headers first."""
    command = [word for word in command if word != "-Werror"] + ["-w"]
    command[command.index("-o") + 1] = str(output)
    command[command.index("-c") + 1] = str(source)
    first = next(i for i, word in enumerate(command) if word.startswith("-I"))
    command[first:first] = [f"-I{folder}/src", f"-I{folder}/include"]
    subprocess.run(command, check=True, cwd=build)


def changed_files(root, changes):
    """The files that the changes concern, with the defect in them."""
    changed = {}
    for file, text, replacement in changes:
        content = changed.get(file, (root / file).read_text())
        if content.count(text) != 1:
            sys.exit(f"defects.py: {file} does not contain exactly once: {text}")
        changed[file] = content.replace(text, replacement)
    return changed


def files_of(root, build, made):
    """The project's files that an object was made of."""
    lines = subprocess.run(["ninja", "-t", "deps", made], cwd=build, check=True, capture_output=True,
                           text=True).stdout.splitlines()
    return {line.strip().removeprefix(f"{root}/") for line in lines if line.strip().startswith(f"{root}/")}


def put_back(root, build, folder, changes, library):
    """Replaces in `library` the objects of what includes a changed file. Returns whether a public header changed."""
    changed = changed_files(root, changes)
    for file, content in changed.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(content)
    for source, command in compile_commands(build, "/vitrine_publish.dir/").items():
        file = str(source.relative_to(root))
        if not changed.keys() & files_of(root, build, command[command.index("-o") + 1]):
            continue
        output = folder / f"{source.name}.o"
        compile_with(build, folder, command, folder / file if file in changed else source, output)
        subprocess.run(["ar", "r", library, output], check=True, stderr=subprocess.DEVNULL)
    return any(file.startswith("include/") for file in changed)


def link(build, folder, library, test, with_headers):
    """Links a test with `library`; compiles it, too, where a public header changed."""
    output = folder / test
    lines = subprocess.run(["ninja", "-t", "commands", f"bin/{test}"], cwd=build, check=True, capture_output=True,
                           text=True).stdout.splitlines()
    command = lines[-1].replace(f"-o bin/{test}", f"-o {output}").replace("lib/libvitrine_publish.a", str(library))
    if with_headers:
        for source, compilation in compile_commands(build, f"/{test}.dir/").items():
            made = compilation[compilation.index("-o") + 1]
            compile_with(build, folder, compilation, source, folder / f"{source.name}.o")
            command = command.replace(made, str(folder / f"{source.name}.o"))
    subprocess.run(command, shell=True, cwd=build, check=True)
    return output


def finds(program, names, folder):
    """Whether the test fails: a report, a crash, a sanitizer, a run that does not end."""
    process = subprocess.Popen([program] + ([f"--gtest_filter={names}"] if names else []), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
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
    root = pathlib.Path(sys.argv[1]).resolve()
    for _, changes, _ in DEFECTS:
        changed_files(root, changes)
    if len(sys.argv) == 2:
        return 0
    build = pathlib.Path(sys.argv[2]).resolve()
    signal.signal(signal.SIGALRM, on_alarm)
    missed = 0
    wanted = sys.argv[3:]
    for name, changes, tests in DEFECTS:
        if wanted and not any(word in name for word in wanted):
            continue
        with tempfile.TemporaryDirectory() as name_of_folder:
            folder = pathlib.Path(name_of_folder)
            library = folder / "libvitrine_publish.a"
            shutil.copy(build / "lib/libvitrine_publish.a", library)
            with_headers = put_back(root, build, folder, changes, library)
            for test in tests:
                test, _, names = test.partition(":")
                found = finds(link(build, folder, library, test, with_headers), names, folder)
                missed += not found
                print(f"{'found' if found else 'MISSED'} by {test}: {name}", flush=True)
    print(f"{len(DEFECTS)} defects, {missed} missed")
    return missed != 0


if __name__ == "__main__":
    sys.exit(main())
