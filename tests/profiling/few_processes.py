#!/usr/bin/env python3
"""Profiles all processes at intervals while many different programs run, each with a file and functions of
its own: the command and its helpers are never more than six processes, every program has its names,
and a worker that is killed meanwhile costs no later one.

    few_processes.py VITRINE CC profile|agent
"""
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time

import many_programs

PROGRAMS = 60
MAX_PROCESSES = 6
WORKERS = ("vitrine-files", "vitrine-symbols")


def main():
    vitrine, cc, kind = sys.argv[1:]
    failures, named, most, killed = [], set(), {}, 0
    with tempfile.TemporaryDirectory(prefix="few-processes-") as place:
        programs = many_programs.build(cc, place, PROGRAMS)
        out = os.path.join(place, "out")
        os.mkdir(out)
        arguments = {"profile": ["profile", "--all", "--continuous", "1s"],
                     "agent": ["agent", "--interval", "1s", "--listen", "off"]}[kind]
        run = subprocess.Popen([vitrine, *arguments, "-o", f"{out}/%t.folded"], stdin=subprocess.DEVNULL)
        try:
            # A few at a time: each gets processor time.
            at_once = 4
            end = time.monotonic() + 240
            while len(named) < PROGRAMS and time.monotonic() < end:
                wanted = [path for path in programs if path.rsplit("work", 1)[1] not in named]
                for begin in range(0, len(wanted), at_once):
                    with many_programs.running(*wanted[begin:begin + at_once]):
                        until = time.monotonic() + 1.5
                        while time.monotonic() < until:
                            now = many_programs.descendants(run.pid)
                            most = max(most, now, key=len)
                            workers = [pid for pid, name in now.items() if name in WORKERS]
                            if workers and begin % 16 == 0 and time.monotonic() > until - 0.1:
                                with contextlib.suppress(ProcessLookupError):
                                    os.kill(workers[0], signal.SIGKILL)
                                    killed += 1
                                until = 0
                            time.sleep(0.01)
                    if run.poll() is not None:
                        raise SystemExit(f"FAILED vitrine ended: {run.returncode}")
                named |= many_programs.named(out)
        finally:
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
