#!/usr/bin/env python3
"""Threads, children and programs that begin and end all the time: do samples add up as perf's do?

    counted_beside_perf.py VITRINE COUNTED

Both sample the same seconds by the same clock of the CPUs. Neither rusage nor perf is the truth to a percent or two:
rusage is off where wake-ups preempt threads (counted_test.cpp), and perf, where it is asked for one program, lacks what
a process does once it has no number any more. vitrine's samples lie between the two, but for two percent and the error
of sampling.
"""
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

FREQUENCY, RUNS, MILLISECONDS = 1999, 3, "3000"
TOLERANCE, ERRORS = 0.02, 3
APART = 0.1  # rusage and perf
FEWEST = 300  # samples


def of_perf(path, name):
    text = subprocess.run(["perf", "script", "-i", path, "-F", "comm"], check=True, capture_output=True,
                          text=True, errors="replace").stdout
    return sum(line.strip() == name for line in text.splitlines())


def of_vitrine(path):
    samples = lost = gone = 0
    with open(path, encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            if "summary" in row:
                lost = row["summary"].get("lost", 0)
            elif "frames" in row:
                samples += row.get("count", 1)
                gone += row.get("end") == "gone"
    return samples + lost, gone


def samples_yet(pid):
    """Whether perf has enabled its events: it maps their buffers, and then waits for them."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/wchan", encoding="utf-8") as place:
        return "perf_event" in maps.read() and "poll" in place.read()


def run(vitrine, program, kind, place):
    load = subprocess.Popen([program, kind, MILLISECONDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert load.stdout.readline() == "ready\n"
    perf = subprocess.Popen(["perf", "record", "-q", "-a", "-e", "cpu-clock", "-F", str(FREQUENCY), "-o",
                             f"{place}/perf.data"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ours = subprocess.Popen([vitrine, "profile", "--follow", "-F", str(FREQUENCY), "-p", str(load.pid), "-o",
                             f"{place}/out.ndjson"], stderr=subprocess.PIPE, text=True)
    ours.stderr.readline()  # it samples
    while not samples_yet(perf.pid):
        time.sleep(0.1)
    load.stdin.write("\n")
    load.stdin.flush()
    used_ns = int(load.stdout.readline())
    load.stdin.close()
    load.wait()
    time.sleep(0.3)
    perf.send_signal(signal.SIGINT)
    perf.wait()
    ours.stderr.read()
    ours.wait()
    samples, gone = of_vitrine(f"{place}/out.ndjson")
    return used_ns * FREQUENCY / 1e9, samples, of_perf(f"{place}/perf.data", os.path.basename(program)), gone


def main():
    vitrine, counted = sys.argv[1:]
    if shutil.which("perf") is None:
        sys.exit("FAILED there is no perf: install linux-perf")
    failed = []
    with tempfile.TemporaryDirectory(prefix="counted-") as place:
        program = os.path.join(place, f"cnt{os.getpid()}")  # a name that no other process has
        shutil.copy(counted, program)
        for kind in ("threads", "forks", "programs", "chains"):
            sums = [sum(column) for column in zip(*(run(vitrine, program, kind, place) for _ in range(RUNS)))]
            used, ours, theirs, gone = sums
            print(f"{kind}: {ours} samples, perf {theirs}: {ours / max(theirs, 1):.3f} of perf; of rusage: vitrine "
                  f"{ours / used:.3f}, perf {theirs / used:.3f}; {gone} without code", flush=True)
            if min(ours, theirs) < FEWEST or abs(theirs / used - 1) > APART:
                failed.append(f"{kind}: one of them has not sampled it all")
                continue
            allowed = TOLERANCE + ERRORS * math.sqrt(1 / ours + 1 / theirs) / 2
            if not min(used, theirs) * (1 - allowed) <= ours <= max(used, theirs) * (1 + allowed):
                failed.append(kind)
    if failed:
        sys.exit(f"FAILED {', '.join(failed)}")


if __name__ == "__main__":
    main()
