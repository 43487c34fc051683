#!/usr/bin/env python3
"""A storm of programs that live a millisecond: how many of its samples have names, in vitrine and in perf.

    storm_beside_perf.py VITRINE STORM

Both profile the same ten seconds. A sample in user code is named if its innermost frame is. vitrine may be at most
five points below perf, and must name nine of ten.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SECONDS, FREQUENCY = 10, 499
LEAST, BELOW_PERF = 0.90, 0.05
FEWEST = 200  # samples


def of_perf(path):
    """Samples in user code, and those whose innermost frame has a name."""
    text = subprocess.run(["perf", "script", "-i", path, "-F", "comm,pid,ip,sym"], check=True,
                          capture_output=True, text=True, errors="replace").stdout
    samples = named = 0
    for block in text.split("\n\n"):
        lines = block.strip("\n").splitlines()
        if len(lines) < 2 or not lines[0].startswith("storm"):
            continue
        address, _, name = lines[1].strip().partition(" ")
        if int(address, 16) >> 63:
            continue  # in the kernel
        samples += 1
        named += name.strip() not in ("", "[unknown]")
    return samples, named


def of_vitrine(path):
    samples = named = 0
    with open(path, encoding="utf-8") as file:
        for line in file:
            sample = json.loads(line)
            if sample.get("comm") != "storm":
                continue
            if not sample["frames"]:
                samples += 1
            elif sample["frames"][0].get("kind") != "kernel":
                samples += 1
                named += bool(sample["frames"][0].get("function"))
    return samples, named


def main():
    vitrine, storm = sys.argv[1:]
    if shutil.which("perf") is None:
        sys.exit("FAILED there is no perf: install linux-perf")
    with tempfile.TemporaryDirectory(prefix="storm-") as place:
        # A copy, as other tests may run the same file.
        program = os.path.join(place, "storm")
        shutil.copy(storm, program)
        run = subprocess.Popen([program, "4"], stdout=subprocess.DEVNULL)
        try:
            perf = subprocess.Popen(["perf", "record", "-q", "-a", "-F", str(FREQUENCY), "-g", "-o",
                                     f"{place}/perf.data", "--", "sleep", str(SECONDS)],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            subprocess.run([vitrine, "profile", "--all", "--freq", str(FREQUENCY), "--duration",
                            f"{SECONDS}s", "--format", "json", "-o", f"{place}/out.json"], check=True,
                           stderr=subprocess.DEVNULL)
            perf.wait()
        finally:
            run.send_signal(signal.SIGKILL)
            run.wait()
        time.sleep(0.5)
        theirs, ours = of_perf(f"{place}/perf.data"), of_vitrine(f"{place}/out.json")
    shares = []
    for name, (samples, named) in (("perf", theirs), ("vitrine", ours)):
        shares.append(named / max(samples, 1))
        print(f"{name}: {named} of {samples} samples named, {shares[-1]:.1%}")
        if samples < FEWEST:
            sys.exit(f"FAILED {name} has only {samples} samples")
    if shares[1] < LEAST or shares[1] < shares[0] - BELOW_PERF:
        sys.exit("FAILED too few are named")


if __name__ == "__main__":
    main()
