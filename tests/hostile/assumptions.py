"""What the evidence of a reading assumes, and docs/reading.md names: that only the thread that has a set in force
changes it, and that a serial number belongs to one content. Targets that break it show what is written there, and no
more: labels of their own, with the evidence that is named.

assumptions.py VITRINE PROGRAMS
"""
import json
import os
import subprocess
import sys
import time

from target import Target

PATIENCE = 60  # seconds, until something that half of all readings show was seen
SERIAL, PROVEN, STOPPED = "serial", "proven", "stopped"


def readings(vitrine, pid, *words):
    """(evidence, letters of the two values) of each line that has the set."""
    command = [vitrine, "labels", str(pid), "--json", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=PATIENCE)
    assert done.returncode == 0, command
    found = []
    for line in map(json.loads, done.stdout.splitlines()):
        if not line.get("labels"):
            continue
        labels = {label["key"]: label["value"] for label in line["labels"]}
        assert sorted(labels) == ["first", "other"], line
        for value in labels.values():  # of this target's own bytes, whatever moment they are of
            assert len(value) == 56 and all("a" <= letter <= "z" for letter in value), line
        found.append((line["evidence"], "".join(sorted(set("".join(labels.values()))))))
    return found


def mixtures(vitrine, pid, evidence, *words):
    """Reads until a mixture is vouched for by `evidence`; returns all readings."""
    seen, end = [], time.monotonic() + PATIENCE
    while not any(proof == evidence and len(letters) > 1 for proof, letters in seen):
        assert time.monotonic() < end, f"no mixture with the evidence {evidence} in {len(seen)} readings"
        seen += readings(vitrine, pid, *words)
    return seen


def edited_by_another(vitrine, start):
    target = start("label-edited-by-another")
    try:
        seen = mixtures(vitrine, target.pid, PROVEN)
        stopped = mixtures(vitrine, target.pid, STOPPED, "--mode", "ptrace")
    finally:
        target.end()
    # It has no serial number that could vouch for a mixture.
    assert {evidence for evidence, _ in seen} <= {PROVEN, "unproven"}, seen
    assert {evidence for evidence, _ in stopped} <= {STOPPED}, stopped
    print(f"edited by another thread: {len(seen)} readings, {len(stopped)} of stopped threads; mixtures with the "
          f"evidence {PROVEN} and {STOPPED}")


def serial_forged(vitrine, start):
    target = start("label-serial-forged")
    try:
        seen = mixtures(vitrine, target.pid, PROVEN)
        watched = readings(vitrine, target.pid, "--watch=20ms", "--duration", "2s")
        later = {letters for _, letters in readings(vitrine, target.pid) + seen}
    finally:
        target.end()
    evidence = {evidence for evidence, _ in seen + watched}
    assert evidence <= {PROVEN, SERIAL}, evidence
    # What is watched stays as it was read first; others see it change.
    assert len({letters for _, letters in watched}) == 1, watched
    assert len(later) > 1, later
    print(f"number that stays: {len(seen)} readings of {len(later)} contents; watched for 2 s: {len(watched)} readings "
          "of one content")


def main(vitrine, programs):
    own = os.path.join(programs, "hostile_target")

    def start(trick):
        return Target([own, trick], {"HOSTILE_DIRECTORY": "/tmp", "HOSTILE_LIBRARIES": programs, "HOSTILE_THREADS": "1"})

    edited_by_another(vitrine, start)
    serial_forged(vitrine, start)


if __name__ == "__main__":
    main(*sys.argv[1:])
