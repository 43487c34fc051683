#!/usr/bin/env python3
"""The hostile-target suite: every command that looks at a process, against every target that does
its worst; and a table of what came of it (eco 6.4).

  run.py VITRINE PROGRAMS WRITERS [--only TEXT] [--but TEXT] [--jobs N] [--rounds N] [--threads N] [--sanitized]

What must hold: no command crashes or hangs, none has more memory than 256 MiB (and a trace its backlog), none shows labels as
proven that no thread had; what it prints is well formed; and the target runs on as before.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

from bpf_objects import bpf_objects, left_behind
from catalogue import Trick, catalogue, exit_codes
from command import OF_ALL, OF_ONE, run
from files import FILES, OUTPUTS, made_file, made_output
from forged import forge_apart
from racing_labels import torn_in
from target import CannotPlay, Target, text_of

MEMORY = 256 << 20
# A small file of a profile takes at most 64 MiB, and as much as what was read of it (src/profile/decoder.hpp).
MEMORY_OF_FILES = 256 << 20
# What a trace keeps of fires that it has not printed yet (src/cli/trace/command.cpp).
BACKLOG = 64 << 20
# A profile of the machine has the symbols of whatever else runs on it, too.
MEMORY_OF_ALL = 1 << 30
FORGED_OF = "libhostile_forged.so"
# A command that ends is late only when the machine is: one that hangs never ends.
HANGS_AFTER = 60


class Suite:
    def __init__(self, options):
        self.options = options
        self.budget = HANGS_AFTER * (5 if options.sanitized else 1)
        self.mark = f"hostile-{os.getpid()}"
        self.directory = tempfile.TemporaryDirectory(prefix="hostile-")
        self.lock = threading.Lock()
        self.runs, self.failures, self.not_played, self.notes = [], [], [], []
        self.tried = self.labels_read = 0
        self.took = {}
        self.forging = threading.Lock()  # one at a time: some take memory
        self.environment = {"HOSTILE_DIRECTORY": self.directory.name,
                            "HOSTILE_LIBRARIES": options.programs,
                            "HOSTILE_THREADS": str(options.threads)}
        self.own = os.path.join(options.programs, "hostile_target")
        self.semaphore = self._semaphore()

    def _semaphore(self):
        names = subprocess.run(["nm", os.path.join(self.options.programs, "hostile_target")],
                               check=True, capture_output=True, text=True).stdout
        return next(int(line.split()[0], 16) for line in names.split("\n")
                    if line.endswith(" hostile_text"))

    def fail(self, trick, what):
        with self.lock:
            self.failures.append(f"{trick}: {what}")
            print(f"FAILED {trick}: {what}", flush=True)

    def start(self, trick, **environment):
        semaphore = self.semaphore if trick.counts else None
        if trick.forgery:
            with self.forging:
                environment.update(forge_apart(trick.forgery, os.path.join(self.options.programs, FORGED_OF),
                                               self.directory.name))
        return Target(trick.argv, dict(self.environment, **environment), semaphore, trick.withheld)

    def command(self, trick, name, arguments, asked, expected=None, output=None):
        races = trick is not None and bool(trick.races)
        result = run(self.options.vitrine, name, arguments, asked, self.mark, self.budget,
                     races or bool(trick and trick.says), output)
        with self.lock:
            self.runs.append((trick.name if trick else "all", result))
        where = trick.name if trick else "all"
        if result.hung:
            self.fail(where, f"{name} hangs: {result.errors[-3000:]}")
        if result.crashed():
            self.fail(where, f"{name} crashed: status {result.status:#x}: {result.errors[-2000:]}")
        expected = expected or exit_codes(trick, name)
        if not result.hung and not result.crashed() and result.exit_code() not in expected:
            self.fail(where, f"{name} ended with {result.exit_code()}, and not with one of {expected}: "
                             f"{result.errors[-1000:]}")
        most = trick.memory if trick else MEMORY_OF_ALL if name == "profile of all" else MEMORY
        if name.startswith("trace"):
            most += BACKLOG
        if result.memory > most and not self.options.sanitized:
            self.fail(where, f"{name} had {result.memory >> 20} MiB")
        for line in result.malformed[:3]:
            self.fail(where, f"{name} printed {line!r}")
        if races:
            torn, read = torn_in(trick.races, result)
            with self.lock:
                self.labels_read += read
            for what in torn[:3]:
                self.fail(where, what)
            result.kept = None
        return result

    def look_at(self, trick, target, name):
        arguments, asked = (OF_ONE | trick.also)[name]
        return self.command(trick, name, arguments.replace("PID", str(target.pid)), asked)

    def expect_unharmed(self, trick, target):
        if not target.is_alive():
            return self.fail(trick.name, "the target has ended")
        states = {"stopped": "T", "held": "t"}
        deadline = time.monotonic() + self.budget
        while True:  # a thread that is let go may need a moment
            threads = target.threads()
            if trick.state in states:
                well = all(state == states[trick.state] for state, _ in threads)
            else:
                well = trick.state in ("any", "frozen") or all(
                    (state not in "tT" and tracer == 0) or trick.state == "traced"
                    for state, tracer in threads)
            well = well and target.semaphore() in (0, None)
            code = target.code()
            well = well and all(target.code_at_start.get(at, now) == now for at, now in code.items())
            if well or time.monotonic() > deadline:
                break
            time.sleep(0.01)
        if not well:
            self.fail(trick.name, f"threads {threads[:20]}, semaphore {target.semaphore()}, code "
                                  f"{'as before' if code == target.code_at_start else 'changed'}")
        if not trick.counts:
            return None
        if trick.state in (*states, "frozen"):
            if not target.rests():
                self.fail(trick.name, "goes on, though it was stopped before")
        elif not target.counts_on():
            self.fail(trick.name, "does not go on")
        if trick.name == "signals":
            sent, handled = target.signals()
            self.notes.append(f"{handled} of {sent} signals handled by a target that was looked at")
            if sent != handled or sent == 0:
                self.fail(trick.name, f"{sent} signals sent, {handled} handled")
        return None

    def play(self, trick):
        try:
            target = None if trick.fresh else self.start(trick)
        except CannotPlay as why:
            with self.lock:
                self.not_played.append(f"{trick.name} ({why})")
            return
        try:
            if target:
                self.notes += [f"{trick.name}: {note}" for note in target.notes]
            told = not trick.says
            for i, name in enumerate(OF_ONE | trick.also):
                if target:
                    told |= self.says(trick, self.look_at(trick, target, name))
                else:
                    once = self.start(trick, HOSTILE_MILLISECONDS=str(10 * i % 70))
                    self.look_at(trick, once, name)
                    once.end()
            if target:
                self.expect_unharmed(trick, target)
            if not told:
                self.fail(trick.name, f"no command said \"{trick.says}\"")
        finally:
            if target:
                target.end()
        with self.lock:
            self.tried += 1

    @staticmethod
    def says(trick, result):
        """As a note, or as the error of one thread."""
        return trick.says in result.errors or any(trick.says in str(line) for line in result.kept or [])

    def play_guarded(self, trick):
        begin = time.monotonic()
        try:
            self.play(trick)
        except Exception as error:  # a broken test is a failure, and the others are played
            self.fail(trick.name, f"the test: {type(error).__name__}: {error}")
        with self.lock:
            self.took[trick.name] = time.monotonic() - begin

    def play_file(self, name):
        """Commands that are given a file by name."""
        begin = time.monotonic()
        try:
            with made_file(name, self.directory.name) as path:
                for command, arguments in FILES[name].items():
                    self.command(Trick(f"file {name}", [], memory=MEMORY_OF_FILES), command, arguments[0].replace("FILE", path), 0.1,
                                 arguments[1])
        except CannotPlay as why:
            with self.lock:
                self.not_played.append(f"file {name} ({why})")
            return
        except Exception as error:
            self.fail(f"file {name}", f"the test: {type(error).__name__}: {error}")
        with self.lock:
            self.tried += 1
            self.took[f"file {name}"] = time.monotonic() - begin

    def play_output(self, name):
        """Commands whose output is taken by nobody; the target is a good one."""
        begin = time.monotonic()
        target = None
        try:
            target = self.start(Trick("a good one", [self.own, "frame-pointers"]))
            with made_output(name, self.directory.name) as output:
                for command, arguments in OUTPUTS[name].items():
                    words = arguments[0].replace("PID", str(target.pid)).replace("FILE", output.path)
                    self.command(Trick(f"output {name}", []), command, words, 0.2, arguments[1], output)
        except CannotPlay as why:
            with self.lock:
                self.not_played.append(f"output {name} ({why})")
            return
        except Exception as error:
            self.fail(f"output {name}", f"the test: {type(error).__name__}: {error}")
        finally:
            if target:
                target.end()
        with self.lock:
            self.tried += 1
            self.took[f"output {name}"] = time.monotonic() - begin

    def look_at_all(self, tricks):
        """Many at once, for the commands that look at every process."""
        targets = []
        try:
            for trick in tricks:
                if trick.busy:
                    continue
                try:
                    targets.append((trick, self.start(trick)))
                except CannotPlay:
                    continue
            for name, (arguments, asked) in OF_ALL.items():
                self.command(None, name, arguments, asked)
            for trick, target in targets:
                self.expect_unharmed(trick, target)
        finally:
            for _, target in targets:
                target.end()

    def processes_left(self):
        left = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            if f"HOSTILE_COMMAND={self.mark}" in text_of(f"/proc/{pid}/environ"):
                left.append(f"{pid} {text_of(f'/proc/{pid}/comm').strip()}")
        return left

    def table(self, seconds):
        crashes = sum(result.crashed() for _, result in self.runs)
        hangs = sum(result.hung for _, result in self.runs)
        longest = max(self.runs, key=lambda one: one[1].seconds)
        largest = max((one for one in self.runs if one[1].command != "profile of all"),
                      key=lambda one: one[1].memory)
        commands = sorted({result.command for _, result in self.runs})
        print(f"{'command':<18}{'runs':>6}{'longest s':>12}{'largest MiB':>13}")
        for command in commands:
            own = [result for _, result in self.runs if result.command == command]
            print(f"{command:<18}{len(own):>6}{max(r.seconds for r in own):>12.2f}"
                  f"{max(r.memory for r in own) / 2**20:>13.1f}")
        slowest = sorted(self.took.items(), key=lambda one: -one[1])[:self.options.slowest]
        print("slowest targets:", ", ".join(f"{name} {took:.0f} s" for name, took in slowest))
        for note in self.notes:
            print("note:", note)
        for trick in self.not_played:
            print("not played here:", trick)
        print(f"targets tried:  {self.tried}")
        print(f"commands run:   {len(self.runs)}")
        print(f"crashes:        {crashes}")
        print(f"hangs:          {hangs}")
        print(f"longest:        {longest[1].seconds:.2f} s beyond what was asked ({longest[1].command}, "
              f"{longest[0]})")
        print(f"largest memory: {largest[1].memory / 2**20:.1f} MiB ({largest[1].command}, "
              f"{largest[0]}); of a profile of the whole machine, with all else that runs on it: see above")
        print(f"labels read of racing writers and vouched for: {self.labels_read}")
        print(f"in {seconds:.0f} s")


def main():
    parser = argparse.ArgumentParser()
    for name in ("vitrine", "programs", "writers"):
        parser.add_argument(name)
    parser.add_argument("--only", default="", help="tricks whose names this regular expression finds")
    parser.add_argument("--but", default="(?!)", help="without tricks whose names this regular expression finds")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=int(os.environ.get("HOSTILE_ROUNDS", "1")))
    parser.add_argument("--threads", type=int, default=int(os.environ.get("HOSTILE_THREADS", "10000")))
    parser.add_argument("--slowest", type=int, default=10, help="how many of the slowest targets are named")
    parser.add_argument("--sanitized", action="store_true", help="no bound of memory; more budget")
    parser.add_argument("--part", choices=("whole", "short", "long"), default="whole",
                        help="which tricks, by how long they take (catalogue.py)")
    parser.add_argument("--one", action="store_true", help="no commands that look at all processes")
    options = parser.parse_args()
    begin = time.monotonic()
    before = bpf_objects()
    suite = Suite(options)

    def chosen(name):
        return re.search(options.only, name) and not re.search(options.but, name)

    tricks = [one for one in catalogue(options.programs, options.writers)
              if chosen(one.name) and
              (options.part == "whole" or one.long == (options.part == "long"))]
    for _ in range(options.rounds):
        if not options.one:
            suite.look_at_all(tricks)
        files = [name for name in FILES if chosen(f"file {name}")]
        outputs = [name for name in OUTPUTS if chosen(f"output {name}")]
        if options.part == "long":
            files = outputs = []
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(suite.play_guarded, tricks))
            list(pool.map(suite.play_file, files))
            list(pool.map(suite.play_output, outputs))
    for what in left_behind(before):
        suite.fail("left in the kernel", what)
    for what in suite.processes_left():
        suite.fail("left running", what)
    suite.table(time.monotonic() - begin)
    if any(trick.name.startswith("racing ") for trick in tricks) and not suite.labels_read:
        suite.fail("racing", "no label was read")
    for failure in suite.failures:
        print("FAILED", failure)
    return 1 if suite.failures or not suite.runs else 0


if __name__ == "__main__":
    sys.exit(main())
