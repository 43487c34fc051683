#!/usr/bin/env python3
"""Runs every example of every command's --help, typed into a shell, against real targets.

usage: run.py VITRINE DEMO_SERVICE LABELS_LIBRARY INCLUDE RECEIVER

What an example names is there (PLACE), or is put in its place (SUBSTITUTES). An example passes when
its exit code is right, it says no error, and what SHOWS asks of its command came out. One that SHOWS
says nothing of fails.
"""
import gzip
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import command_tree

PATIENCE = 120  # seconds: of a loaded machine

# What stands for what, in this order.
SUBSTITUTES = [
    (r"4242(?= python:)", "$PYTHON"),  # a process with the probe that a Python of --with-dtrace has
    (r"\b4242\b", "$SERVICE"),  # the demo's service
    (r"--port 8080", "--seconds 6"),  # ./server is that service, too, and takes this
    (r"http://localhost:4318", "http://localhost:$PORT"),  # a collector
    (r"/var/spool/vitrine", "$PWD/spool"),
    (r"--duration (?:5|10|30)s", "--duration 2s"),
    (r"^vitrine agent (?=--service)", "vitrine agent --interval 1s "),
    (r"--continuous (?:10s|1m)", "--continuous 1s"),
]

# These go on until they are interrupted: which, and what has come when they may be.
ENDLESS = [
    (r"--top tenant --watch", lambda run: run.printed("stdout", b"acme")),
    (r"--watch(?!.*(--duration|--exec))", lambda run: run.printed("stdout", b"\n")),
    (r"^vitrine agent (?!--check)", lambda run: run.taken(2)),
    (r"--continuous.*--export", lambda run: run.taken(2)),
    (r"--continuous.* -o", lambda run: len(list(run.place.glob("profile-*.pb.gz"))) > 1),
    (r"^vitrine trace \S+ 'shop:\*'$", lambda run: run.printed("stdout", b"shop:request_start")),
    (r"^vitrine trace .*func:\S+ --pid.*--where", lambda run: run.printed("stdout", b"func:libc:malloc(")),
    (r"^vitrine trace .*--slower", lambda run: run.printed("stdout", "→".encode())),
    (r"^vitrine trace .*--where", lambda run: run.printed("stdout", b"shop:order")),
    (r"^vitrine trace .*--(latency|count|export)", lambda run: time.monotonic() > run.attached() + 4),
    (r"^vitrine trace \S+ python:", lambda run: run.printed("stdout", b"function__entry")),
]

PROFILE = r"samples on CPU|samples off CPU|on CPU +share"

# What must have come out (on standard output; where that is a file or none, in it or on standard
# error), by how the line begins. All that fit an example hold.
SHOWS = [
    (r"vitrine ps", r"shop"),
    (r"vitrine labels", r"custom-labels-v1"),  # a moment may find all threads idle
    (r"vitrine context", r"service\.name"),
    (r"vitrine probes .*4242", r"libstdcxx|catch|throw"),
    (r"vitrine probes /usr/bin/stap", r"stap:"),
    (r"vitrine trace 4242 'shop:\*'$", r"shop:request_start\(id=\d+, path="),
    (r"vitrine trace \./server .*--json", r'"probe":"shop:request_start"'),
    (r"vitrine trace .* -o shop\.prom", r'vitrine_probe_latency_seconds_count\{probe="shop:request_end",tenant="acme"\} \d+'),
    (r"vitrine trace --exec", r"shop:request_end"),
    (r"vitrine probes 'func:", r"func:libc:malloc +1 +-"),
    (r"vitrine trace 'func:libc:malloc'", r"func:libc:malloc\(\S+=\d+\)"),
    (r"vitrine trace .*--slower", r"shop:request_start\(id=(\d+), .*→ shop:request_end\(id=\1, "),
    (r"vitrine trace (?!.*func:).*--where", r"shop:order\(.*tenant=acme"),
    (r"vitrine trace .*python:", r'\(str\(arg0\)="/srv/shop.py", str\(arg1\)="order", arg2=17\)'),
    (r"vitrine trace .*--count.*tenant", r"(?m)^ +.*acme +\d+"),
    (r"vitrine trace .*--count.*container", r"shop:request_start +\S+ +\d+"),
    (r"vitrine trace .*--export", r"sent \d+ request"),
    (r"vitrine trace (?!.*(--slower| -o |--export)).*--latency", r"(?s)P99.*acme +\d+"),
    (r"vitrine profile .*--verify-unwind", r"\d+ of \d+ agree with their copies"),
    (r"vitrine profile (4242|--exec -- .*)$", PROFILE),
    (r"vitrine profile (?!open|diff).* -o", r"\.pb\.gz"),
    (r"vitrine profile merge", r"samples on CPU|on CPU +share|;.* \d+\n"),
    (r"vitrine profile (open|diff.*html)", r"vitrine: \S+\.html: open it"),
    (r"vitrine profile diff(?!.*(--json|html))", r"(?s)before \S+: .*after  \S+: .*functions on CPU"),
    (r"vitrine profile diff.*--by tenant", r"by tenant, on CPU"),
    (r"vitrine profile diff.*--json", r'"type":"label"'),
    (r"vitrine profile .*--wakers", r"(?m)^ *off CPU +share.* tenant +waker.tenant$"),
    (r"vitrine profile (?!.*--wakers).*--top (tenant|process)", r"(?m)^ *on CPU +share.*(tenant|process)$"),
    (r"vitrine profile .*--format folded", r"(?m);.* \d+$"),
    (r"vitrine profile .*--export", r"sent \d+ request"),
    (r"vitrine agent (?!--check)", r"(?s)profiling: on CPU at \d+ Hz, every .*sent \d+ request"),
    (r"vitrine agent --check", r'(?s)interval = "1s" +# agent\.toml:2:12.*frequency = 99 +# default'),
    (r"vitrine check \./lib", r"no rule fails"),
    (r"vitrine check .*/usr/bin/stap", r"\(sdt\)"),
    (r"vitrine check 4242", r"no rule fails.*custom-labels-v1"),
    (r"vitrine check --sarif", r'"executionSuccessful": true'),
    (r"vitrine check --list", r"labels\.tlsdesc"),
    (r"vitrine doctor", r"uprobe_multi"),
    (r"vitrine usdt header .*shop.d$", r"SHOP_REQUEST_START\("),
    (r"vitrine usdt header .*-o -", r"SHOP_REQUEST_START\("),
    (r"vitrine usdt header .*gen/shop.h", r"SHOP_REQUEST_START\("),
    (r"vitrine usdt link", r"ELF"),
    (r"vitrine usdt dump .*\| jq", r"^0\n$"),
    (r"vitrine usdt dump (?!.*jq)", r"request-start"),
]

# Where what came out is, of examples that write files.
FILES = [
    (r"> (\S+)$", lambda name: name),
    (r"vitrine usdt header(?!.*-o)", lambda _: "shop.h"),
    (r"vitrine (?:usdt|trace) .*-o ([\w./]+)", lambda name: name),
]

DEFINITION = """provider shop {
  probe request__start(int id, const char *path);
};
"""
PROGRAM = """#include "shop.h"
int main(void) { SHOP_REQUEST_START(1, "/"); return 0; }
"""
AGENT = """[profile]
interval = "1s"
[export]
url = "otlp+http://localhost:4318"
[agent]
listen = "127.0.0.1:0"
"""
PYTHON = """#include <unistd.h>
#include <vitrine/sdt.h>
static const char file[] = "/srv/shop.py", function[] = "order";
int main(void) {
  int line = 17;
  for (int turn = 0; turn < 90000; ++turn) {  // a quarter of an hour, if nobody ends it
    VITRINE_PROBE(python, function__entry, file, function, line);
    usleep(10000);
  }
}
"""


def prepare(place, vitrine, demo, library, include):
    """The folder in which an example is typed."""
    def run(*words):
        subprocess.run(words, cwd=place, check=True, timeout=PATIENCE)

    for folder in ("build", "gen", "spool"):
        (place / folder).mkdir()
    (place / "server").symlink_to(demo)
    for copy in ("libcustomlabels.so", "build/libcustomlabels.so"):
        shutil.copy(library, place / copy)
    (place / "shop.d").write_text(DEFINITION)
    (place / "main.c").write_text(PROGRAM)
    (place / "shop.c").write_text('#include "shop.h"\nvoid start(void) { SHOP_REQUEST_START(2, "/pay"); }\n')
    (place / "python.c").write_text(PYTHON)
    run("gcc", "-O1", f"-I{include}", "-o", "python", "python.c")
    run(vitrine, "usdt", "header", "-s", "shop.d")
    for source in ("main", "shop"):
        run("gcc", "-O2", "-c", source + ".c")
    linked = place / "linked"
    linked.mkdir()
    for file in ("main.o", "shop.o", "shop.d"):
        shutil.copy(place / file, linked / file)
    subprocess.run([vitrine, "usdt", "link", "-s", "shop.d", "-o", "shop_probes.o", "main.o", "shop.o"],
                   cwd=linked, check=True, timeout=PATIENCE)
    subprocess.run(["gcc", "-o", "shop", "main.o", "shop.o", "shop_probes.o"], cwd=linked, check=True,
                   timeout=PATIENCE)
    shutil.move(linked / "shop", place / "shop")
    files = place / "files"  # of examples that read profiles
    files.mkdir()
    for name in ("monday", "tuesday"):
        run(vitrine, "profile", "-F", "999", "--duration", "1s", "-o", f"files/{name}.pb.gz", "-o",
            f"files/{name}.otlp", "--exec", "--", demo, "--seconds", "9")
    for old, new in (("monday.pb.gz", "cpu.pb.gz"), ("monday.pb.gz", "cpu.pprof"), ("monday.pb.gz", "profile-1.pb.gz"),
                     ("tuesday.pb.gz", "profile-2.pb.gz"), ("monday.otlp", "old.otlp"), ("tuesday.otlp", "new.otlp")):
        shutil.copy(files / old, files / new)
    (place / "shop.h").unlink()


class Run:
    """One example at work."""

    def __init__(self, line, place, environment, requests):
        self.line, self.place, self.requests = line, place, requests
        self.requests_before = len(self._requests())
        self.began_at = None
        if re.search(r"usdt dump.* \S+_probes\.o", line):
            shutil.copy(place / "linked" / "shop_probes.o", place)
        if re.match(r"vitrine profile (merge|diff|open)", line):
            shutil.copytree(place / "files", place, dirs_exist_ok=True)
        self.out = open(place / "stdout", "w+b")
        self.err = open(place / "stderr", "w+b")
        # A group of its own: ^C goes to all that a shell has started.
        self.process = subprocess.Popen(["bash", "-c", "set -o pipefail; " + typed(line)], cwd=place,
                                        env=environment, stdin=subprocess.DEVNULL, stdout=self.out,
                                        stderr=self.err, start_new_session=True)

    def _requests(self):
        return self.requests.read_bytes().splitlines()[1:]

    def printed(self, stream, what):
        return what in (self.place / stream).read_bytes()

    def attached(self):
        """When it said so."""
        if self.began_at is None and self.printed("stderr", b"tracing"):
            self.began_at = time.monotonic()
        return self.began_at or float("inf")

    def taken(self, count):
        return len(self._requests()) >= self.requests_before + count

    def end(self, enough):
        """Waits for its end, or until it has shown enough. Returns whether it was interrupted."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            if enough and enough(self):
                os.killpg(self.process.pid, signal.SIGINT)
                self.process.wait(timeout=PATIENCE)
                return True
            if time.monotonic() > deadline:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
                return False
            time.sleep(0.05)
        return False


def typed(line):
    for what, instead in SUBSTITUTES:
        line = re.sub(what, instead, line)
    return line


def what_came(run):
    """All that it has shown, or written."""
    text = (run.place / "stdout").read_text(errors="replace")
    for pattern, name in FILES:
        found = re.search(pattern, run.line)
        if found and not re.search(r"-o -$", run.line):
            file = run.place / name(found.group(found.lastindex or 0))
            text += file.read_bytes().decode(errors="replace") if file.exists() else ""
            break
    for file in run.place.glob("*.pb.gz"):
        text += file.name if gzip.decompress(file.read_bytes()) else ""
    return text + (run.place / "stderr").read_text(errors="replace")


def problems_of(run, interrupted, endless):
    wrong = []
    status = run.process.returncode
    # What goes on for ever is ended by ^C: 130, and 0 where that is its proper end.
    expected = (0, 130) if interrupted else (0,)
    if status not in expected:
        wrong.append(f"exit {status}, expected {' or '.join(map(str, expected))}")
    if endless and not interrupted:
        wrong.append("it was to go on until it is interrupted, and did not show enough, or ended")
    errors = (run.place / "stderr").read_text(errors="replace")
    if re.search(r"(?m)^vitrine: (?!note: |tracing |profiling:? |(?:profiles|metrics|logs|traces|spans): sent \d|\d+ profiles? with |\d+ (?:of \d+ )?pairs\b|\S+\.(html|pb\.gz)\b|warning)", errors):
        wrong.append("it says an error")
    came = what_came(run)
    wanted = [pattern for begin, pattern in SHOWS if re.match(begin, run.line)]
    if not wanted:
        wrong.append("SHOWS does not say what it is to show: add that")
    wrong += [f"nothing like {pattern} came out" for pattern in wanted if not re.search(pattern, came)]
    if "--json" in run.line and "|" not in run.line:
        lines = (run.place / "stdout").read_text().splitlines()
        # The last one may have been cut by ^C.
        for text in lines[:-1] if interrupted else lines:
            try:
                json.loads(text)
            except ValueError:
                wrong.append(f"no JSON: {text[:100]}")
                break
    return wrong


def check(line, prepared, environment, requests):
    with tempfile.TemporaryDirectory(prefix="vitrine_example.") as folder:
        place = pathlib.Path(folder, "place")
        shutil.copytree(prepared, place, symlinks=True)
        enough = next((when for which, when in ENDLESS if re.search(which, line)), None)
        run = Run(line, place, environment, requests)
        interrupted = run.end(enough)
        wrong = problems_of(run, interrupted, enough is not None)
        if wrong:
            print(f"FAILED: {line}\n  typed: {typed(line)}")
            for text in wrong:
                print("  " + text)
            print("  standard output: " + (place / "stdout").read_text(errors="replace")[:1000])
            print("  standard error: " + (place / "stderr").read_text(errors="replace")[:1000])
        return not wrong


def main():
    vitrine, demo, library, include, receiver = (os.path.abspath(path) for path in sys.argv[1:])
    commands = [one for one in command_tree.commands(vitrine) if one.words]
    failures = 0
    children = []
    with tempfile.TemporaryDirectory(prefix="vitrine_examples.") as folder:
        work = pathlib.Path(folder)
        prepared = work / "prepared"
        prepared.mkdir()
        (work / "bodies").mkdir()
        prepare(prepared, vitrine, demo, library, include)
        requests = work / "requests"
        try:
            service = subprocess.Popen([demo, "--seconds", "900"], stdout=subprocess.PIPE)
            children.append(service)
            service.stdout.readline()
            python = subprocess.Popen([prepared / "python"])
            children.append(python)
            with open(requests, "wb") as to:
                children.append(subprocess.Popen([sys.executable, "-u", receiver, work / "bodies", "200"], stdout=to))
            deadline = time.monotonic() + PATIENCE
            while not requests.read_bytes().count(b"\n") and time.monotonic() < deadline:
                time.sleep(0.05)
            environment = dict(os.environ, SERVICE=str(service.pid), PYTHON=str(python.pid),
                               PORT=requests.read_text().split()[0],
                               PATH=f"{os.path.dirname(vitrine)}:{os.environ['PATH']}")
            (prepared / "agent.toml").write_text(AGENT.replace("4318", environment["PORT"]))
            count = 0
            for command in commands:
                if not command.examples:
                    failures += 1
                    print(f"FAILED: {' '.join(command.words)} has no example")
                for line in command.examples:
                    count += 1
                    began = time.monotonic()
                    failures += not check(line, prepared, environment, requests)
                    print(f"{time.monotonic() - began:5.1f} s  {line}", flush=True)
        finally:
            for child in children:
                child.kill()
                child.wait()
    print(f"{count} examples of {len(commands)} commands, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
