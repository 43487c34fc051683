#!/usr/bin/env python3
"""Profiles at intervals of libraries with deep DWARF, in a control group with as much memory as the
systemd unit has; and with half of the memory by which it grew then, so that the kernel kills workers: the
command goes on. (With less memory than its BPF programs need it does not start.)

  memory_group.py VITRINE PROGRAMS
"""
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time

from target import Target

INTERVALS = 8  # of 2 s
SKIPPED = 77
UNIT_LIMIT = 512 << 20  # bytes


class NoGroup(Exception):
    """No control group with a limit of memory can be made here."""


def value_of(path):
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def set_value(path, value):
    with open(path, "w", encoding="ascii") as file:
        file.write(str(value))


def own_group(prefix):
    with open("/proc/self/cgroup", encoding="ascii") as file:
        return next((line.split(":", 2)[2].strip() for line in file if line.startswith(prefix)), "/")


class Group:
    """With `limit` bytes of memory: of version 2 where that has the memory controller, else of 1."""

    def __init__(self, limit):
        self.name = f"vitrine-hostile-{os.getpid()}"
        unified = "/sys/fs/cgroup"
        if "memory" in self._subtree(unified):
            self.path, self.version = f"{unified}/{self.name}", 2
            files = {"memory.max": limit, "memory.oom.group": 0, "memory.swap.max": 0}
        elif os.path.isdir("/sys/fs/cgroup/memory"):
            self.path, self.version = f"/sys/fs/cgroup/memory/{self.name}", 1
            files = {"memory.limit_in_bytes": limit}
        else:
            raise NoGroup("no control groups with a memory controller")
        try:
            os.mkdir(self.path)
            for name, value in files.items():
                if os.path.exists(f"{self.path}/{name}"):
                    set_value(f"{self.path}/{name}", value)
        except OSError as why:
            with contextlib.suppress(OSError):
                os.rmdir(self.path)
            raise NoGroup(str(why)) from why

    @staticmethod
    def _subtree(root):
        try:
            return value_of(f"{root}/cgroup.subtree_control").split()
        except OSError:
            return []

    def enter(self):
        """In a child, before it executes the command."""
        set_value(f"{self.path}/cgroup.procs", os.getpid())

    def tighten(self, limit):
        """To `limit` bytes, once the kernel can take back as much."""
        name = "memory.max" if self.version == 2 else "memory.limit_in_bytes"
        with contextlib.suppress(OSError):
            set_value(f"{self.path}/{name}", limit)

    def used(self):
        return int(value_of(f"{self.path}/{'memory.current' if self.version == 2 else 'memory.usage_in_bytes'}"))

    def largest(self):
        name = "memory.peak" if self.version == 2 else "memory.max_usage_in_bytes"
        return int(value_of(f"{self.path}/{name}")) if os.path.exists(f"{self.path}/{name}") else 0

    def kills(self):
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        found = re.search(r"^oom_kill (\d+)", value_of(f"{self.path}/{name}"), re.M)
        return int(found[1]) if found else 0

    def remove(self):
        for _ in range(500):
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.02)
        raise SystemExit(f"FAILED {self.path} cannot be removed")


def profile(vitrine, programs, more, failures):
    """Within the unit's limit, or, from when it has begun, with `more` bytes than it takes then. Returns by how much it
    grew."""
    group = Group(UNIT_LIMIT)
    try:
        with tempfile.TemporaryDirectory(prefix="hostile-") as place:
            target = Target([os.path.join(programs, "hostile_target"), "names-stall"],
                            {"HOSTILE_DIRECTORY": place, "HOSTILE_LIBRARIES": programs})
            try:
                run = subprocess.Popen(
                    [vitrine, "profile", str(target.pid), "--continuous", "2s", "--duration",
                     f"{2 * INTERVALS}s", "-o", f"{place}/%t.folded"], preexec_fn=group.enter,
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                begun = run.stderr.readline()
                used = group.used()
                limit = used + more if more else UNIT_LIMIT
                group.tighten(limit)
                _, errors = run.communicate(timeout=250)
            finally:
                target.end()
            written = [name for name in os.listdir(place) if name.endswith(".folded")]
        what = (f"limit {limit >> 20} MiB (version {group.version}): {len(written)} profiles of {INTERVALS}, "
                f"exit code {run.returncode}, at most {group.largest() >> 20} MiB, {group.kills()} kills")
        print(what)
        print(begun + errors)
        if run.returncode != 0 or len(written) < INTERVALS // 2:
            failures.append(what)
        if not more and group.kills():
            failures.append(f"workers do not stay within the limit: {what}")
        if more and not group.kills():
            failures.append(f"the kernel killed nothing: {what}")
        return group.largest() - used
    finally:
        group.remove()


def main():
    vitrine, programs = sys.argv[1:]
    failures = []
    try:
        growth = profile(vitrine, programs, None, failures)
        profile(vitrine, programs, growth // 2, failures)
    except NoGroup as why:
        print(f"skipped: {why}")
        return SKIPPED
    for failure in failures:
        print("FAILED", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
