#!/usr/bin/env python3
"""Profiles all processes at intervals while many different programs run, each with a file and functions of
its own: the command and its helpers are never more than six processes, every program has its names,
and a worker that is killed meanwhile costs no later one.

    few_processes.py VITRINE CC profile|agent
"""
import glob
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

PROGRAMS = 60
MAX_PROCESSES = 6
WORKERS = ("vitrine-files", "vitrine-symbols")

SOURCE = """
static volatile unsigned long sum;
void __attribute__((noinline)) work_%d(unsigned long n) {
  for (unsigned long i = 0; i < 100000; ++i) sum += i ^ n;
}
int main(void) {
  for (unsigned long n = 0;; ++n) work_%d(n);
}
"""

def build(cc, place):
    """Programs that differ, in one run of the compiler each."""
    programs = []
    for number in range(PROGRAMS):
        path = os.path.join(place, f"work{number}")
        with open(path + ".c", "w", encoding="utf-8") as file:
            file.write(SOURCE % (number, number))
        subprocess.run([cc, "-O1", "-g", "-o", path, path + ".c"], check=True)
        programs.append(path)
    return programs


def descendants(pid):
    """Of a process, zombies left out, with their names."""
    found = {}
    for children in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            with open(children, encoding="utf-8") as file:
                pids = file.read().split()
        except OSError:
            continue
        for child in map(int, pids):
            try:
                with open(f"/proc/{child}/stat", encoding="utf-8") as file:
                    name, state = re.match(r"\d+ \((.*)\) (.)", file.read()).groups()
            except OSError:
                continue
            if state not in "ZX":
                found[child] = name
            found.update(descendants(child))
    return found


def main():
    vitrine, cc, kind = sys.argv[1:]
    failures, named, most, killed = [], set(), {}, 0
    with tempfile.TemporaryDirectory(prefix="few-processes-") as place:
        programs = build(cc, place)
        out = os.path.join(place, "out")
        os.mkdir(out)
        arguments = {"profile": ["profile", "--all", "--continuous", "1s"],
                     "agent": ["agent", "--interval", "1s", "--listen", "off"]}[kind]
        arguments = [vitrine] + arguments + ["-o", f"{out}/%t.folded"]
        run = subprocess.Popen(arguments, stdin=subprocess.DEVNULL)
        running = []

        def look():
            nonlocal most, killed
            now = descendants(run.pid)
            if len(now) > len(most):
                most = now
            return now

        def read_names():
            for path in glob.glob(f"{out}/*.folded"):
                with open(path, encoding="utf-8", errors="replace") as file:
                    named.update(re.findall(r"\bwork_(\d+)\b", file.read()))

        try:
            # A few at a time: each gets processor time.
            at_once = 4
            end = time.monotonic() + 240
            while len(named) < PROGRAMS and time.monotonic() < end:
                wanted = [path for path in programs if path.rsplit("work", 1)[1] not in named]
                for begin in range(0, len(wanted), at_once):
                    running = [subprocess.Popen([path]) for path in wanted[begin:begin + at_once]]
                    until = time.monotonic() + 1.5
                    while time.monotonic() < until:
                        workers = [pid for pid, name in look().items() if name in WORKERS]
                        if workers and begin % 16 == 0 and time.monotonic() > until - 0.1:
                            os.kill(workers[0], signal.SIGKILL)
                            killed += 1
                            until = 0
                        time.sleep(0.01)
                    for process in running:
                        process.kill()
                        process.wait()
                    running = []
                    if run.poll() is not None:
                        raise SystemExit(f"FAILED vitrine ended: {run.returncode}")
                read_names()
        finally:
            for process in running:
                process.kill()
                process.wait()
            if run.poll() is None:
                run.send_signal(signal.SIGINT)
                run.wait(60)
    print(f"most processes: {1 + len(most)} ({', '.join(sorted(most.values()))}), "
          f"{len(named)} of {PROGRAMS} programs named, {killed} workers killed")
    if 1 + len(most) > MAX_PROCESSES:
        failures.append(f"{1 + len(most)} processes")
    if len(named) < PROGRAMS:
        failures.append(f"{PROGRAMS - len(named)} programs have no names")
    if not killed:
        failures.append("no worker was there to be killed")
    for failure in failures:
        print("FAILED", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
