#!/usr/bin/env python3
"""The command in a time namespace, where its clocks are not those of the kernel's records, and a service in one.

    time_namespaces.py VITRINE DEMO-SERVICE
"""
import datetime
import json
import subprocess
import sys
import time

SECONDS = (-1000, 5000)


def within(seconds, *command):
    """The command in a new time namespace."""
    return ["unshare", "--time", "--monotonic", str(seconds), "--boottime", str(seconds), "--fork", "--kill-child",
            *command]


def lines_of(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise SystemExit(f"FAILED {' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout.splitlines()


def expect(what, holds, found):
    print(f"{what}: {found}")
    if not holds:
        raise SystemExit(f"FAILED {what}: {found}")


def observe(vitrine, pid, seconds):
    here = f"by vitrine at {seconds:+} s"
    for mode in ("snapshot", "ebpf"):
        rows = [json.loads(line) for line in
                lines_of(within(seconds, vitrine, "labels", pid, "--mode", mode, "--duration", "2s", "--json"))]
        good = [row for row in rows if row.get("evidence") in ("proven", "sampled")]
        expect(f"labels, {mode}, {here}", good, f"{len(good)} of {len(rows)} rows are certain")
    for kind in ("--on-cpu", "--off-cpu"):
        rows = lines_of(within(seconds, vitrine, "profile", pid, kind, "--duration", "2s", "--top", "tenant"))
        expect(f"profile, {kind}, {here}", any("acme" in row for row in rows), rows[:3])
    began = datetime.datetime.now() - datetime.timedelta(seconds=1)
    [row] = lines_of(within(seconds, vitrine, "trace", pid, "shop:request_start", "--limit", "1"))
    at = datetime.datetime.combine(began.date(), datetime.time.fromisoformat(row.split()[0]))
    late = (at - began).total_seconds() % 86400
    expect(f"time of a fire, {here}", late < 60, row)


def service(command):
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    child.stdout.readline()
    return child


def main():
    vitrine, demo = sys.argv[1:]
    with service([demo]) as target:
        try:
            for seconds in SECONDS:
                observe(vitrine, str(target.pid), seconds)
        finally:
            target.kill()
    for seconds in SECONDS:
        with service(within(seconds, demo)) as parent:
            try:
                with open(f"/proc/{parent.pid}/task/{parent.pid}/children", encoding="ascii") as children:
                    pid = children.read().split()[0]
                time.sleep(1)
                verdicts = {}
                for line in lines_of([vitrine, "check", pid, "--duration", "1s", "--json"]):
                    row = json.loads(line)
                    verdicts[row.get("rule")] = row.get("verdict")
                for rule in ("otep-4719.own", "otep-4719.clock"):
                    expect(f"{rule} of a service at {seconds:+} s", verdicts.get(rule) == "holds", verdicts.get(rule))
            finally:
                parent.kill()


main()
