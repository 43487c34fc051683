#!/usr/bin/env python3
"""Profiles at intervals, of a target whose names take half a minute to find: they are written in
time, without the names that are not there, and no sample is lost meanwhile.

  continuous.py VITRINE PROGRAMS
"""
import os
import re
import subprocess
import sys
import tempfile

from target import Target

INTERVALS = 12  # of a second


def main():
    vitrine, programs = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="hostile-") as place:
        target = Target([os.path.join(programs, "hostile_target"), "names-stall"],
                        {"HOSTILE_DIRECTORY": place, "HOSTILE_LIBRARIES": programs})
        try:
            run = subprocess.run(
                [vitrine, "profile", str(target.pid), "--continuous", "1s", "--duration",
                 f"{INTERVALS}s", "-o", f"{place}/%t.folded"],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=250)
            alive = target.is_alive() and target.counts_on()
        finally:
            target.end()
        written = sorted(name for name in os.listdir(place) if name.endswith(".folded"))
        stacks = "".join(open(os.path.join(place, name), encoding="utf-8").read() for name in written)
    lost = re.search(r"(\d+) samples were lost", run.stderr)
    print(f"{len(written)} profiles of {INTERVALS}, {lost[1] if lost else 0} samples lost")
    print(run.stderr)
    # Half of them: a busy machine may skip some. Without a budget of naming there are one or two.
    failures = []
    if run.returncode != 0:
        failures.append(f"exit code {run.returncode}")
    if len(written) < INTERVALS // 2:
        failures.append("profiles are missing")
    if lost:
        failures.append("samples were lost")
    if "hostile_spin" not in stacks:
        failures.append("the symbol tables name nothing")
    if not alive:
        failures.append("the target does not go on")
    for failure in failures:
        print("FAILED", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
