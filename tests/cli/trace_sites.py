#!/usr/bin/env python3
"""vitrine trace: what is added up of a probe whose sites have its argument in different sizes, signs and types, or do
not have it. In the kernel as in user space, where a condition that the kernel does not know moves it.

    trace_sites.py VITRINE CC INCLUDE
"""
import json
import os
import subprocess
import sys
import tempfile

PROGRAM = r"""#include <stdint.h>
#include <vitrine/sdt.h>
#define SITE(name, type) \
  __attribute__((noinline)) static void name##_##type(type value) { VITRINE_PROBE(sites, name, value); }
#define SITES(name) SITE(name, uint8_t) SITE(name, int8_t) SITE(name, int32_t) SITE(name, int64_t) SITE(name, uint64_t)
SITES(value)
SITES(end)
SITE(ended, int32_t)
typedef enum { red = 1, green } colours;
typedef enum { off = 1, on } states;
VITRINE_ENUMERATORS(colours, red, green);
VITRINE_ENUMERATORS(states, off, on);
#define PAIR(name, type, value) \
  do { \
    VITRINE_PROBE(sites, begin, 1); \
    name##_##type(value); \
  } while (0)
int main(void) {
  value_uint8_t(253);
  value_uint8_t(200);
  value_int8_t(-3);
  value_int32_t(-3);
  value_int32_t(200);
  value_int64_t(1000007);
  value_int64_t(200);
  value_uint64_t(200);
  value_uint64_t(UINT64_MAX - 2);
  PAIR(end, uint8_t, 200);
  PAIR(end, int8_t, -3);
  PAIR(end, int64_t, 1000007);
  PAIR(end, int32_t, 200);
  PAIR(end, uint64_t, UINT64_MAX - 2);
  PAIR(ended, int32_t, 200);
  volatile int five = 5, six = 6;
  VITRINE_TYPED_PROBE(sites, named, (first, five));
  VITRINE_TYPED_PROBE(sites, named, (second, six));
  volatile colours colour = green;
  volatile states state = on;
  VITRINE_TYPED_PROBE(sites, kind, VITRINE_ENUM(kind, colour, colours));
  VITRINE_TYPED_PROBE(sites, kind, VITRINE_ENUM(kind, state, states));
  for (volatile int i = 0; i < 6000; ++i) {
    const int number = i;
    VITRINE_PROBE(sites, many, number);
    VITRINE_PROBE(sites, many, (uint16_t)number);
    VITRINE_PROBE(sites, many, (int64_t)number);
  }
}
"""
TOP = 2**64 - 3
VALUES = [253, 200, -3, -3, 200, 1000007, 200, 200, TOP]


def number(value):
    """Numbers beyond 2^53 are decimal strings."""
    return int(value) if isinstance(value, str) and value.lstrip("-").isdigit() else value


class Trace:
    def __init__(self, vitrine, program, *more):
        self.command, self.program, self.more = [vitrine, "trace"], program, more

    def text(self, *options):
        done = subprocess.run([*self.command, *options, *self.more, "--exec", "--", self.program], capture_output=True,
                              text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def rows(self, *options):
        return [json.loads(line) for line in self.text(*options, "--json").splitlines()]

    def counts(self, *options):
        """By the values of the groups; two rows of one group are an error."""
        rows = [(tuple(number(key) for key in row["by"].values()), row["count"]) for row in self.rows(*options)]
        assert len(dict(rows)) == len(rows), rows
        return dict(rows)


def equal(seen, expected):
    assert seen == expected, f"seen {seen}, expected {expected}"


def values(trace):
    by_value = {(value,): VALUES.count(value) for value in VALUES}
    equal(trace.counts("sites:value", "--count", "--by", "arg0"), by_value)
    equal(trace.counts("sites:value", "--sum", "arg0", "--by", "arg0"), by_value)
    equal(trace.counts("sites:value", "--count", "--by", "arg0 + 1"),
          {((value + 1),): count for (value,), count in by_value.items()})
    for option in ("--sum", "--hist"):
        [row] = trace.rows("sites:value", option, "arg0")
        equal([number(row[key]) for key in ("count", "sum", "min", "max")],
              [len(VALUES), sum(VALUES), min(VALUES), max(VALUES)])
    for row in trace.rows("sites:value", "--hist", "arg0", "--by", "arg0"):
        of_it = number(row["by"]["arg0"])
        equal([number(row[key]) for key in ("sum", "min", "max")], [of_it * row["count"], of_it, of_it])
    # A table: one row for each value, its count in it.
    lines = trace.text("sites:value", "--count", "--by", "arg0").splitlines()
    for (value,), count in by_value.items():
        [line] = [line.split() for line in lines if str(value) in line.split()]
        assert str(count) in line, lines


def latencies(trace):
    ends = {(200,): 2, (-3,): 1, (1000007,): 1, (TOP,): 1}
    equal(trace.counts("--latency", "sites:begin,sites:end", "--by", "arg0"), ends)
    # Each probe that ends it has rows of its own.
    both = {("sites:end", *key): count for key, count in ends.items()} | {("sites:ended", 200): 1}
    equal(trace.counts("--latency", "sites:begin,sites:end*", "--by", "probe,arg0"), both)
    rows = trace.rows("--latency", "sites:begin,sites:end*")
    equal({row["probe"]: row["count"] for row in rows}, {"sites:end": 5, "sites:ended": 1})


def other_arguments(trace):
    equal(trace.counts("sites:named", "--count", "--by", "second,first"), {(None, 5): 1, (6, None): 1})
    hidden = trace.counts("sites:named", "--count", "--by", "arg0", "--redact", "first")
    assert (6,) in hidden and (5,) not in hidden and len(hidden) == 2, hidden
    equal(trace.counts("sites:kind", "--count", "--by", "kind"), {("green",): 1, ("on",): 1})


def main(vitrine, cc, include):
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(os.path.realpath(folder), "sites")
        with open(program + ".c", "w") as file:
            file.write(PROGRAM)
        subprocess.run([cc, "-O1", "-I", include, "-o", program, program + ".c"], check=True)
        for trace in Trace(vitrine, program), Trace(vitrine, program, "--where", "comm ~ 's*'"):
            values(trace)
            latencies(trace)
            other_arguments(trace)
        # Sites with the same values share the groups of the kernel: none is beyond its limit of 10,000.
        rows = Trace(vitrine, program).rows("sites:many", "--count", "--by", "arg0")
        equal((len(rows), {row["count"] for row in rows}), (6000, {3}))


if __name__ == "__main__":
    main(*sys.argv[1:])
