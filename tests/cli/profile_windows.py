#!/usr/bin/env python3
"""Profiles one after another: the waits of a thread within each take no longer than the profile does, also where
many others come and go meanwhile.

    profile_windows.py VITRINE PROFILE_SUBJECT
"""
import collections
import datetime
import glob
import os
import subprocess
import sys
import tempfile

VITRINE, SUBJECT = sys.argv[1:]
THREADS = 200
MOST_BEYOND = 40e6  # ns: what one pass over the waiting threads may take on a busy machine


def start_of(file):
    """In ns: file names have milliseconds."""
    time = datetime.datetime.strptime(os.path.basename(file), "%Y%m%dT%H%M%S.%fZ.folded")
    return round(time.timestamp() * 1000) * 1_000_000


def profiles(pid, folder, *options):
    """Of each but the last, which ends when the next one begins: how long it took, and how long each thread waited."""
    subprocess.run([VITRINE, "profile", "--off-cpu", "--min-block", "0ms", "--continuous", "500ms", "--duration", "3s",
                    "--group-by", "tid", "--format", "folded", "-o", folder + "/%t.folded", *options, str(pid)],
                   check=True, stderr=subprocess.DEVNULL)
    files = sorted(glob.glob(folder + "/*"))
    for file, next_file in zip(files, files[1:]):
        waited = collections.Counter()
        for line in open(file, encoding="utf-8"):
            stack, time = line.rsplit(" ", 1)
            waited[stack.split(";")[0]] += int(time) * 1000  # from microseconds
        yield start_of(next_file) - start_of(file), waited


def check(pid, *options):
    with tempfile.TemporaryDirectory() as folder:
        all_of_them = list(profiles(pid, folder, *options))
    assert all_of_them, options
    for took, waited in all_of_them:
        del waited[f"tid={pid}"]  # the first thread waits for a line
        thread, most = waited.most_common(1)[0]
        assert most <= took + MOST_BEYOND, f"{options}: {thread} waited {most} ns in a profile of {took} ns"
        assert most >= 0.5 * took, f"{options}: {thread} waited {most} ns in a profile of {took} ns"


with subprocess.Popen([SUBJECT, f"nap {THREADS}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as subject:
    try:
        assert subject.stdout.readline().strip() == "ready"
        check(subject.pid, "--unwind", "copy")
        check(subject.pid)
    finally:
        subject.kill()
