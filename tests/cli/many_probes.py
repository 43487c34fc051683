#!/usr/bin/env python3
"""Traces a program with many different probes at once: each fire is an event, and each is counted.

    many_probes.py VITRINE CC COUNT…
"""
import collections
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

MAIN = r"""
#include <stdio.h>
void fire_all(long argument);
int main(void) {
  char line[16];
  setvbuf(stdout, NULL, _IOLBF, 0);
  puts("ready");
  while (fgets(line, sizeof line, stdin)) {
    fire_all(7);
    puts("fired");
  }
}
"""

NOTE = """  .4byte 8, 994f-993f, 3
  .asciz "stapsdt"
993: .8byte .Lprobe{0}, _.stapsdt.base, 0
  .asciz "many"
  .asciz "p{0}"
  .asciz "8@%rdi"
994: .balign 4
"""


def build(cc, count, folder):
    program = os.path.join(folder, f"many_{count}")
    with open(program + ".c", "w") as file:
        file.write(MAIN)
    with open(program + "_probes.s", "w") as file:
        file.write(".text\n.globl fire_all\n.type fire_all, @function\nfire_all:\n")
        file.writelines(f".Lprobe{i}: nop\n" for i in range(count))
        file.write("  ret\n.section .note.stapsdt,\"\",\"note\"\n.balign 4\n")
        file.writelines(NOTE.format(i) for i in range(count))
        file.write(".section .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
                   ".weak _.stapsdt.base\n_.stapsdt.base: .space 1\n"
                   ".section .note.GNU-stack,\"\",@progbits\n")
    subprocess.run([cc, "-no-pie", "-o", program, program + ".c", program + "_probes.s"], check=True)
    return program


def fire(target):
    target.stdin.write("\n")
    target.stdin.flush()
    assert target.stdout.readline() == "fired\n"


def trace(vitrine, program, count, options, rounds):
    """What it prints on standard output, as objects."""
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as target:
        assert target.stdout.readline() == "ready\n"
        with tempfile.TemporaryFile("w+") as out:
            tracer = subprocess.Popen([vitrine, "trace", str(target.pid), "many:*", "--json", *options],
                                      stdout=out, stderr=subprocess.PIPE, text=True)
            said = tracer.stderr.readline()
            if not re.search(rf"tracing {count} probes at {count} sites", said):
                tracer.kill()
                sys.exit(f"{count} probes: {said}{tracer.stderr.read()}")
            for _ in range(rounds):
                fire(target)
            tracer.send_signal(signal.SIGINT)
            rest = tracer.stderr.read()
            status = tracer.wait()
            out.seek(0)
            objects = [json.loads(line) for line in out]
        target.stdin.close()
    assert status == 130, f"exit status {status}: {rest}"
    assert rest == "", rest
    return objects


def main(vitrine, cc, *counts):
    with tempfile.TemporaryDirectory() as folder:
        for count in map(int, counts):
            program = build(cc, count, folder)
            wanted = {f"many:p{i}" for i in range(count)}
            rounds = 3
            rows = trace(vitrine, program, count, ["--count"], rounds)
            assert {row["probe"] for row in rows} == wanted, f"{len(rows)} rows"
            assert {row["count"] for row in rows} == {rounds}
            rows = trace(vitrine, program, count, ["--sum", "arg0", "--by", "arg0"], rounds)
            groups = [row for row in rows if "others" not in row]
            others = sum(row["count"] for row in rows if "others" in row)
            assert len({row["probe"] for row in groups}) == min(count, 10_000), f"{len(groups)} groups"
            assert all((row["count"], row["sum"], row["by"]) == (rounds, 7 * rounds, {"arg0": 7}) for row in groups)
            assert others == rounds * (count - len(groups))
            events = trace(vitrine, program, count, ["--where", "arg0 == 7"], 1)
            assert collections.Counter(event["probe"] for event in events) == dict.fromkeys(wanted, 1)
            assert all(event["args"] == [7] for event in events)
            print(f"{count} probes: {len(events)} events, {len(groups)} groups")


if __name__ == "__main__":
    main(*sys.argv[1:])
