#!/usr/bin/env python3
"""Runs a program of this folder, and compares what it prints of its threads with what `vitrine labels` reads.

usage: read.py VITRINE PROGRAM
"""
import json
import subprocess
import sys
import time


def read(vitrine, pid):
    """{thread: its set of labels}; a thread shows the same labels in each format, or it is an error."""
    run = subprocess.run([vitrine, "labels", str(pid), "--json"], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"vitrine labels: exit code {run.returncode}\n{run.stdout}{run.stderr}")
    threads = {}
    for line in run.stdout.splitlines():
        thread = json.loads(line)
        shown = {label["key"]: label["value"] for label in thread["labels"]}
        if threads.setdefault(str(thread["tid"]), shown) != shown:
            return {"formats differ": line}
    return threads


def main():
    vitrine, path = sys.argv[1:]
    with subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        said = program.stdout.readline()
        if not said:
            sys.exit(f"{path} ended with {program.wait()}")
        truth = json.loads(said)
        # Threads may still be on their way to sleep.
        deadline = time.monotonic() + 5
        while True:
            seen = read(vitrine, program.pid)
            expected = {thread: {} for thread in seen}
            expected.update({thread: {"tenant": tenant} for thread, tenant in truth.items()})
            if seen == expected or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        rest, _ = program.communicate("\n", timeout=30)
    print(rest, end="")
    if seen != expected:
        sys.exit(f"expected: {expected}\nread:     {seen}")
    idle = len(seen) - len(truth)
    print(f"read from outside: {len(truth)} threads with their tenants, {idle} without labels")
    # The main thread, and at least one worker.
    return program.returncode or (idle < 2 and "no worker was idle")


if __name__ == "__main__":
    sys.exit(main())
