#!/usr/bin/env python3
"""What targets that take long to search cost: all of them together a command that looks at every
process, and each of them a command that is to end after a time.

  budgets.py VITRINE PROGRAMS
"""
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

from target import Target

COPIES = 12
LOAD = 30  # processes that compute
TRICK = "modules-endless"


def used():
    """Processor time of all commands so far: wall time says little on a busy machine."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(vitrine, arguments):
    """(output, notes, wall time, processor time); fails when it does not exit with 0."""
    begin, before = time.monotonic(), used()
    done = subprocess.run([vitrine, *arguments.split()], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=250)
    result = time.monotonic() - begin, used() - before
    print(f"{arguments}: exit code {done.returncode}, {result[0]:.2f} s, {result[1]:.2f} s of CPU")
    if done.returncode != 0:
        raise SystemExit(f"FAILED {arguments}: exit code {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout, done.stderr, *result


def on_a_busy_machine(vitrine, failures):
    """A command that takes long for want of a CPU says how far it is."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(LOAD)]
    try:
        time.sleep(2)  # until all of them compute
        _, notes, wall, _ = run(vitrine, "ps --json")
    finally:
        for one in busy:
            one.kill()
            one.wait()
    if wall > 5 and "looked at" not in notes:
        failures.append(f"ps took {wall:.1f} s on a busy machine, and said nothing")


def main():
    vitrine, programs = sys.argv[1:]
    failures = []
    targets = []
    with tempfile.TemporaryDirectory(prefix="hostile-") as place:
        environment = {"HOSTILE_DIRECTORY": place, "HOSTILE_LIBRARIES": programs}

        def start(trick):
            targets.append(Target([os.path.join(programs, "hostile_target"), trick], environment))
            return targets[-1].pid

        try:
            on_a_busy_machine(vitrine, failures)
            _, _, _, idle = run(vitrine, "ps --json")
            first = start(TRICK)
            _, _, full, _ = run(vitrine, f"labels {first} --json")
            _, notes, watched, _ = run(vitrine, f"labels {first} --watch=100ms --duration 300ms --json")
            if full > 2 and watched > full / 2:
                failures.append(f"--duration 300ms took {watched:.1f} s of {full:.1f} s")
            hostile = [first] + [start(TRICK) for _ in range(COPIES - 1)]
            honest = start("another-user")
            output, notes, _, cpu = run(vitrine, "ps --json")
            listed = {one["pid"]: one for one in map(json.loads, output.splitlines())}
            # Budgets: 0.1 s each, and 5 s for all. Without them each takes `full`.
            if cpu - idle > 0.1 * COPIES + 5 + 5:
                failures.append(f"ps took {cpu:.1f} s of CPU, {idle:.1f} s without the targets")
            if listed.get(honest, {}).get("problems") or honest not in listed:
                failures.append(f"the honest process is not listed: {listed.get(honest)}")
            for pid in hostile:
                problems = listed.get(pid, {}).get("problems", [])
                if not any("read in part" in problem or "only the first" in problem
                           for problem in problems):
                    failures.append(f"nothing says that {pid} was read in part: {problems}")
            _, notes, wall, _ = run(vitrine, "profile --all --duration 1s --top process")
            if full > 2 and wall > COPIES * full / 2:
                failures.append(f"profile --all --duration 1s took {wall:.1f} s")
        finally:
            for target in targets:
                target.end()
    for failure in failures:
        print("FAILED", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
