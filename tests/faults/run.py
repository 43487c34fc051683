#!/usr/bin/env python3
"""Makes every kind of call of `vitrine` fail, at one place after the other, in each of its commands.

    run.py VITRINE LIBRARY SERVICE INCLUDE [--places N] [--only REGEX] [--kinds REGEX] [--seed N] [--verbose]

LIBRARY is built of faults.c; SERVICE is the demo service, which is looked at. A place is a call with
its callers; each command is run once to enter all of them, and then once for each of N of a kind
(0: all). A run is right when
  - it ends, by itself, and by no signal;
  - its exit code is one that is documented, and says that something failed if its output is not
    whole, unless a line of standard error says what is missing;
  - a failure has a message that begins with "vitrine: ";
  - nothing is left: no process of its, no traced or stopped thread of the service, no breakpoint in
    its code, no file beside the one that was asked for, and that one whole or not there."""
import argparse
import contextlib
import ctypes
import hashlib
import json
import mmap
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

KINDS = {1: "allocation", 2: "open", 3: "read", 4: "ioctl", 5: "bpf", 6: "mmap", 7: "fork", 8: "descriptor"}
HEADER, PLACE, PLACES = struct.Struct("QQ"), struct.Struct("QII5Q24s"), 65536
TABLE_BYTES = HEADER.size + PLACE.size * PLACES
# Libraries that crash when their own allocations fail; nobody who calls them can help that.
CRASHING = {"libseccomp.so.2": "2.5.4 uses what it has not got (seccomp_export_bpf)"}
EXIT_CODES = (0, 1, 2, 3, 4, 130)
BUDGET = 30  # seconds; a run takes less than one


def has_lines(count):
    return lambda out: len(out.splitlines()) >= count


def has_threads(out):
    """Some of its threads are there, each in two formats."""
    return out.count("\"evidence\"") >= 6


def has_samples(out):
    return '"summary"' in out and out.count("\n") > 2


# name: (arguments, whether the output is whole, the file that it writes)
COMMANDS = {
    "labels": ("labels PID --json", has_threads, None),
    "labels ptrace": ("labels PID --mode ptrace --json", has_threads, None),
    "labels ebpf": ("labels PID --mode ebpf --freq 999 --duration 300ms --json", has_lines(1), None),
    "context": ("context PID --json", has_lines(1), None),
    "probes": ("probes PID shop:* --sites --json", has_lines(2), None),
    "trace": ("trace PID shop:* --limit 20 --duration 5s --json", has_lines(20), None),
    "trace sums": ("trace PID shop:* --count --by tenant --duration 200ms --json", has_lines(2), None),
    "profile": ("profile PID --freq 199 --duration 300ms --format json -o -", has_samples, None),
    "profile file": ("profile PID --off-cpu --on-cpu --duration 200ms -o p.pb.gz", None, "p.pb.gz"),
    "profile export": ("profile PID --freq 199 --duration 300ms --export COLLECTOR", None, None),
    "check": ("check PID --duration 200ms --json", has_lines(5), None),
    "ps": ("ps --json", lambda out: '"shop"' in out or "demo" in out, None),
    "doctor": ("doctor --json", has_lines(5), None),
    "agent": ("agent --interval 300ms --freq 199 --naming 1s --listen 127.0.0.1:0 --export COLLECTOR", None, None),
    "merge": ("profile merge PROFILE PROFILE -o p.pb.gz", None, "p.pb.gz"),
    "diff": ("profile diff PROFILE PROFILE --json", has_lines(1), None),
    "open": ("profile open PROFILE -o -", lambda out: out.rstrip().endswith("</html>"), None),
    "dump": ("usdt dump PROBES --json", has_lines(1), None),
}
# It runs until it is asked to end; seconds.
ASKED_TO_END = {"agent": 1.0}
DEFINITION = "provider faults { probe begin(int id, const char *path); probe end(void); };\n"
PROGRAM = '#include "faults.h"\nint main(void) { FAULTS_BEGIN(1, "a"); FAULTS_END(); return 0; }\n'


class Table:
    """What faults.c shares with us."""

    def __init__(self, directory):
        self.path = os.path.join(directory, "table")
        self.left_out = 0
        with open(self.path, "wb") as file:
            file.truncate(TABLE_BYTES)
        with open(self.path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), TABLE_BYTES)

    def aim(self, place):
        HEADER.pack_into(self.memory, 0, place, 0)

    def failed(self):
        return HEADER.unpack_from(self.memory, 0)[1]

    def take_places(self):
        """{kind: [(hash, callers)]} of what was entered, which is forgotten."""
        found = {}
        for at in range(HEADER.size, TABLE_BYTES, PLACE.size):
            place, kind, _, *callers, library = PLACE.unpack_from(self.memory, at)
            if place and library.rstrip(b"\0").decode() in CRASHING:
                self.left_out += 1
            elif place:
                found.setdefault(kind, []).append((place, callers))
        self.memory[:] = bytes(TABLE_BYTES)
        return {kind: sorted(places) for kind, places in found.items()}


class Collector:
    """Takes what is sent to it (tests/support/collector.py)."""

    def __init__(self, directory):
        self.folder = os.path.join(directory, "collector")
        os.mkdir(self.folder)
        script = os.path.join(os.path.dirname(__file__), "../support/collector.py")
        self.process = subprocess.Popen([sys.executable, script, self.folder], stdin=subprocess.DEVNULL)
        ready = os.path.join(self.folder, "port")
        if not wait_until(lambda: os.path.exists(ready), 20):
            raise SystemExit("the collector does not start")
        with open(ready, encoding="ascii") as file:
            self.port = int(file.read())

    def close(self):
        self.process.kill()
        self.process.wait()


class Service:
    """The demo service, and what of it must stay as it was."""

    def __init__(self, program):
        self.program = program
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen([self.program, "--seconds", "3600"], stdout=subprocess.PIPE,
                                        stdin=subprocess.DEVNULL)
        self.process.stdout.readline()
        time.sleep(0.3)
        self.code = self.code_digest()

    def close(self):
        self.process.kill()
        self.process.wait()

    @property
    def pid(self):
        return self.process.pid

    def code_digest(self):
        digest = hashlib.sha256()
        with open(f"/proc/{self.pid}/maps", encoding="utf-8") as maps, \
                open(f"/proc/{self.pid}/mem", "rb", buffering=0) as memory:
            for line in maps:
                fields = line.split()
                if "x" in fields[1] and len(fields) > 5 and fields[5] == os.path.realpath(self.program):
                    start, end = (int(part, 16) for part in fields[0].split("-"))
                    memory.seek(start)
                    digest.update(memory.read(end - start))
        return digest.hexdigest()

    def harm(self):
        """What has been done to it; nothing: ""."""
        if self.process.poll() is not None:
            return f"the service has ended with {self.process.returncode}"
        for tid in os.listdir(f"/proc/{self.pid}/task"):
            try:
                with open(f"/proc/{self.pid}/task/{tid}/status", encoding="utf-8") as file:
                    status = dict(line.split(":", 1) for line in file if ":" in line)
            except OSError:
                continue
            if status["TracerPid"].strip() != "0":
                return f"thread {tid} of the service is traced"
            if status["State"].split()[0] in "tT":
                return f"thread {tid} of the service is stopped"
        if self.code_digest() != self.code:
            return "the code of the service has changed"
        return ""


def left_processes(mark):
    """Processes with this mark in their environment."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if mark.encode() in file.read():
                    found.append(int(entry))
        except OSError:
            pass
    return found


def wait_until(holds, seconds):
    end = time.monotonic() + seconds
    while not (value := holds()) and time.monotonic() < end:
        time.sleep(0.02)
    return value


class Bench:
    def __init__(self, options):
        self.options = options
        self.number = 0
        self.started = contextlib.ExitStack()  # ended by close(), also where a later one cannot be started
        try:
            self.service = Service(options.service)
            self.started.callback(self.service.close)
            self.directory = self.started.enter_context(tempfile.TemporaryDirectory(prefix="vitrine-faults-"))
            self.table = Table(self.directory)
            self.collector = Collector(self.directory)
            self.started.callback(self.collector.close)
            self.inside = os.path.join(self.directory, "cwd")
            os.mkdir(self.inside)
            self.given = {"COLLECTOR": f"otlp+http://127.0.0.1:{self.collector.port}",
                          "PROFILE": self.make_profile(), "PROBES": self.make_probes()}
        except BaseException:
            self.close()
            raise

    def make_profile(self):
        path = os.path.join(self.directory, "given.pb.gz")
        subprocess.run([self.options.vitrine, "profile", str(self.service.pid), "--freq", "999",
                        "--duration", "1s", "-o", path], check=True, stderr=subprocess.DEVNULL)
        return path

    def make_probes(self):
        """A probe object."""
        for name, text in (("faults.d", DEFINITION), ("program.c", PROGRAM)):
            with open(os.path.join(self.directory, name), "w", encoding="ascii") as file:
                file.write(text)
        vitrine = self.options.vitrine
        for command in ([vitrine, "usdt", "header", "-s", "faults.d", "-o", "faults.h"],
                        ["cc", "-O1", "-I.", f"-I{self.options.include}", "-c", "program.c", "-o", "program.o"],
                        [vitrine, "usdt", "link", "-s", "faults.d", "-o", "probes.o", "program.o"]):
            subprocess.run(command, cwd=self.directory, check=True)
        return os.path.join(self.directory, "probes.o")

    def close(self):
        self.started.close()

    def run(self, name, arguments):
        """(status or None, output, errors, what is left)"""
        self.number += 1
        mark = f"FAULTS_MARK={os.getpid()}.{self.number}."
        environment = dict(os.environ, LD_PRELOAD=self.options.library, FAULTS=self.table.path,
                           FAULTS_MARK=mark.split("=")[1])
        given = self.given | {"PID": str(self.service.pid)}
        words = [given.get(word, word) for word in arguments.split()]
        with subprocess.Popen([self.options.vitrine, *words], cwd=self.inside, env=environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              start_new_session=True) as process:
            asking = threading.Timer(ASKED_TO_END.get(name, BUDGET), process.terminate)
            try:
                if name in ASKED_TO_END:
                    asking.start()
                out, errors = process.communicate(timeout=BUDGET)
                status = process.returncode
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                out, errors = process.communicate()
                status = None
            finally:
                asking.cancel()
        wait_until(lambda: not left_processes(mark), 3)
        left = left_processes(mark)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        return status, out.decode(errors="replace"), errors.decode(errors="replace"), left

    def wrong(self, name, run):
        """What is not as it should be; nothing: ""."""
        _, whole, file = COMMANDS[name]
        status, out, errors, left = run
        if status is None:
            return f"it did not end within {BUDGET} s"
        if status < 0:
            return f"it was ended by {signal.Signals(-status).name}"
        if status not in EXIT_CODES:
            return f"its exit code was {status}"
        if left:
            return f"it left the processes {left}"
        if any(sign in errors for sign in ("Sanitizer", "runtime error:", "terminate called")):
            return "it crashed"
        told = [line for line in errors.splitlines() if line.startswith("vitrine: ")]
        reasons = [line for line in told if not line.startswith("vitrine: profiling ")]
        if status != 0 and not reasons:
            return f"exit code {status} without a message"
        if any("bad_alloc" in line or "std::" in line for line in told):
            return "the message is for developers"
        if status == 0 and not reasons and whole is not None and not whole(out):
            return "its output is not whole, and nothing says so"
        files = os.listdir(self.inside)
        if status == 0 and file is not None and file not in files:
            return f"it wrote no {file}, and its exit code is 0"
        for other in files:
            path = os.path.join(self.inside, other)
            if other != file:
                os.unlink(path)
                return f"it left a file: {other}"
            complete = subprocess.run(["gzip", "-t", path], stderr=subprocess.DEVNULL, check=False)
            os.unlink(path)
            if complete.returncode != 0:
                return f"it left a part of {other}"
        return wait_until(lambda: not self.service.harm(), 3) and "" or self.service.harm()

    def places_of(self, name, arguments):
        self.table.aim(0)
        for _ in range(2):  # what depends on time is not in every run
            run = self.run(name, arguments)
            if wrong := self.wrong(name, run):
                raise SystemExit(f"{name}, without a fault: {wrong}\n{run[2]}")
        return self.table.take_places()


def described(program, callers):
    """The functions of the program among these callers, a line each."""
    loaded_at = 0x555555554000  # without randomisation, on x86-64
    offsets = [hex(caller - 1 - loaded_at) for caller in callers if 0 < caller - loaded_at < 1 << 28]
    if not offsets:
        return ""
    lines = subprocess.run(["addr2line", "-Cpfse", program, *offsets], stdout=subprocess.PIPE, check=False,
                           encoding="utf-8").stdout.splitlines()
    return "".join(f"      {line[:160]}\n" for line in lines)


def choose(places, count, draw):
    return places if count == 0 or len(places) <= count else draw.sample(places, count)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("vitrine")
    parser.add_argument("library")
    parser.add_argument("service")
    parser.add_argument("include", help="the directory of the public headers")
    parser.add_argument("--places", type=int, default=6, help="of each kind and command; 0: all")
    parser.add_argument("--only", default="")
    parser.add_argument("--kinds", default="")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    for name in ("vitrine", "library", "service", "include"):
        setattr(options, name, os.path.realpath(getattr(options, name)))
    no_randomisation = 0x0040000
    if ctypes.CDLL(None).personality(no_randomisation) < 0:
        raise SystemExit("cannot switch off the randomisation of addresses")
    draw = random.Random(options.seed)
    print(f"seed {options.seed}")
    bench = Bench(options)
    runs = failed_calls = 0
    failures = []
    try:
        for name, (arguments, *_) in COMMANDS.items():
            if not re.search(options.only, name):
                continue
            places = bench.places_of(name, arguments)
            print(f"{name}: " + ", ".join(f"{len(of)} {KINDS[kind]}" for kind, of in sorted(places.items())),
                  flush=True)
            for kind, of in sorted(places.items()):
                if not re.search(options.kinds, KINDS[kind]):
                    continue
                for place, callers in choose(of, options.places, draw):
                    bench.table.aim(place)
                    run = bench.run(name, arguments)
                    runs += 1
                    failed_calls += bench.table.failed()
                    wrong = bench.wrong(name, run)
                    if options.verbose and not wrong:
                        print(f"  {KINDS[kind]} {place:#x}: {run[0]} {run[2].strip()[:300]!r}")
                    if wrong:
                        failures.append((name, KINDS[kind], place, wrong))
                        print(f"  {KINDS[kind]} {place:#x}: {wrong}\n    {run[2].strip()[:600]}\n"
                              f"{described(options.vitrine, callers)}", flush=True)
                    if bench.service.process.poll() is not None:
                        bench.service.start()
    finally:
        bench.close()
    for library, reason in CRASHING.items():
        print(f"left out: {bench.table.left_out} places of {library}: {reason}")
    print(json.dumps({"runs": runs, "failed_calls": failed_calls, "wrong": len(failures)}))
    if runs == 0 or failed_calls < runs / 2:
        raise SystemExit("too few calls failed: the places are not found again")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
