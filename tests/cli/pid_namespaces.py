#!/usr/bin/env python3
"""Two containers beside one another: a process of the other one is not taken for the one here with the same PID. And a
/proc that is of another PID namespace than the command: its numbers are those of other processes.

    pid_namespaces.py VITRINE SUBJECT

SUBJECT: `vitrine-demo-service`, or another program that uses a CPU.
"""
import json
import subprocess
import sys

WITHIN = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


def expect(what, holds, found):
    print(f"{what}: {found}")
    if not holds:
        raise SystemExit(f"FAILED {what}: {found}")


def without_proc(vitrine, *arguments):
    return subprocess.run(["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", 'sleep 60 & exec "$0" "$@"',
                           vitrine, *arguments],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)


def refuses(vitrine, *arguments):
    done = without_proc(vitrine, *arguments)
    expect(f"without a /proc of its own: {' '.join(arguments)}",
           done.returncode == 1 and "/proc is of another PID namespace" in done.stderr, (done.returncode, done.stderr))


def main():
    vitrine, subject = sys.argv[1:]
    for arguments in (("profile", "2", "-d", "1s"), ("profile", "--all", "-d", "1s"), ("profile", "--", "true"),
                      ("labels", "2"), ("context", "2"), ("probes", "2"), ("trace", "2", "func:libc:malloc"),
                      ("trace", "--exec", "func:libc:malloc", "--", "true"), ("labels", "--", "true"),
                      ("check", "2"), ("ps",)):
        refuses(vitrine, *arguments)
    found = [line for line in without_proc(vitrine, "doctor").stdout.splitlines() if line.split()[1:2] == ["/proc"]]
    expect("doctor", len(found) == 1 and found[0].split()[0] == "no", found)
    # PID 2 of one namespace is the subject, PID 2 of the other one only waits.
    other = subprocess.Popen([*WITHIN, "sh", "-c", '"$0" & echo $!; wait', subject], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True)
    try:
        expect("PID of the subject", int(other.stdout.readline()) == 2, 2)
        done = subprocess.run([*WITHIN, "sh", "-c", 'sleep 60 & "$0" profile --all -d 2s -o - --format json', vitrine],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    finally:
        other.kill()
    expect("exit code", done.returncode == 0, (done.returncode, done.stderr))
    samples = [json.loads(line) for line in done.stdout.splitlines()]
    name = subject.rsplit("/", 1)[-1][:15]
    pids = {sample["pid"] for sample in samples if sample.get("process") == name or sample.get("comm") == name}
    expect("PIDs of the subject in the profile", pids <= {0}, pids)
    taken_for = [sample for sample in samples if sample.get("pid") == 2]
    expect("samples of what waits", not taken_for, taken_for[:1])
    expect("note", "processes of other PID namespaces" in done.stderr, done.stderr)
    expect("reason", "stacks of ended processes" not in done.stderr, done.stderr)


if __name__ == "__main__":
    main()
