#!/usr/bin/env python3
"""What an agent holds, with all its processes and the kernel's tables.

    memory_bounds.py VITRINE CC LABEL_TURNS

Two loads: 200 programs, each a file and a function of its own; and two programs that have 12,000 label sets
a minute together. The agent selects these: what else runs on this machine, and its files, are none of the load.
The loads have a priority by which they get the time that they need on a machine with much else to do.
Sums of the proportional set size (PSS) count what processes share once, and mapped tables of the kernel with
it; the tables that are not mapped are added by their descriptors.
"""
import glob
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import many_programs
from many_programs import text_of

PROGRAMS = 200
MIB = 1 << 20
FILES_BOUND, LABELS_BOUND = 64 * MIB, 128 * MIB
SETS_PER_MINUTE = 10_000
FILES_NAMED = 180  # the others had no sample
# Twelve milliseconds of each twenty, whatever else runs.
AT_ONCE = ["chrt", "--fifo", "1"]
BEFORE_OTHERS = ["nice", "-n", "-15"]
MAPPED = 1024  # BPF_F_MMAPABLE
RING_BUFFER = 27


def kernel_tables(pid):
    """Bytes of the kernel's tables that are in no process's memory."""
    tables = {}
    for path in glob.glob(f"/proc/{pid}/fdinfo/*"):
        facts = dict(re.findall(r"^(\w+):\s+(\S+)$", text_of(path), re.M))
        if "map_id" not in facts:
            continue
        is_mapped = int(facts["map_type"]) == RING_BUFFER or int(facts["map_flags"], 16) & MAPPED
        tables[facts["map_id"]] = 0 if is_mapped else int(facts["memlock"])
    return sum(tables.values())


def held(pid):
    pss = 0
    for member in [pid, *many_programs.descendants(pid)]:
        found = re.search(r"^Pss:\s+(\d+) kB$", text_of(f"/proc/{member}/smaps_rollup"), re.M)
        pss += int(found[1]) * 1024 if found else 0
    return pss + kernel_tables(pid)


def watch(arguments, seconds):
    """Runs a command; the bytes that it held, several times a second."""
    run = subprocess.Popen(arguments, stdin=subprocess.DEVNULL)
    seen = []
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end and run.poll() is None:
            seen.append(held(run.pid))
            time.sleep(0.2)
    finally:
        if run.poll() is not None:
            raise SystemExit(f"FAILED vitrine ended: {run.returncode}")
        run.send_signal(signal.SIGINT)
        run.wait(60)
    return seen


def with_files(vitrine, cc, place):
    programs = many_programs.build(cc, place, PROGRAMS, pause=40_000)
    out = os.path.join(place, "files")
    os.mkdir(out)
    with many_programs.running(*[[*BEFORE_OTHERS, program] for program in programs]):
        seen = watch([vitrine, "agent", "--interval", "5s", "--freq", "19", "--listen", "off",
                      "--process", "work*", "-o", f"{out}/%t.folded"], 90)
    named = len(many_programs.named(out))
    print(f"{PROGRAMS} files, {named} of them named: {max(seen) / MIB:.1f} MiB at most, "
          f"{sorted(seen)[len(seen) // 2] / MIB:.1f} usually")
    yield named >= FILES_NAMED, f"only {named} programs were named"
    yield max(seen) <= FILES_BOUND, f"more than {FILES_BOUND // MIB} MiB with {PROGRAMS} files"


def with_label_sets(vitrine, label_turns, place):
    out = os.path.join(place, "labels")
    os.mkdir(out)
    seconds = 120
    with many_programs.running(*[[*AT_ONCE, label_turns, "paced"]] * 2):
        seen = watch([vitrine, "agent", "--interval", "10s", "--freq", "199", "--listen", "off",
                      "--process", "label_turns", "-o", f"{out}/%t.ndjson"], seconds)
    sets = len(set(re.findall(r'"request","value":"(\d+-\d+)"', many_programs.profiled(out))))
    print(f"{sets} label sets in {seconds} s: {max(seen) / MIB:.1f} MiB at most, "
          f"{sorted(seen)[len(seen) // 2] / MIB:.1f} usually")
    yield sets * 60 >= SETS_PER_MINUTE * seconds, f"only {sets} label sets in {seconds} s"
    yield max(seen) <= LABELS_BOUND, f"more than {LABELS_BOUND // MIB} MiB with label sets"


def main():
    vitrine, cc, label_turns = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="memory-bounds-") as place:
        checks = [*with_files(vitrine, cc, place), *with_label_sets(vitrine, label_turns, place)]
    failures = [why for holds, why in checks if not holds]
    for why in failures:
        print("FAILED", why)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
