#!/usr/bin/env python3
"""Stacks that the kernel unwinds are those that user space unwinds from copies taken with the same samples: at
least 99.5 % of them, for programs of each tool chain and for each way to switch stacks.

    agreement.py VITRINE CC NAME…      NAME: of PROGRAMS; a tool chain that is missing is an error
"""
import os
import re
import signal
import subprocess
import sys
import tempfile

GO = r"""
package main
import ("fmt"; "sort"; "strings"; "time")
func deep(n int) int { if n == 0 { return len(fmt.Sprintf("%d %v", n, time.Now().Unix())) }; return deep(n-1) + 1 }
func sorted(n int) int { a := make([]string, n); for i := range a { a[i] = strings.Repeat("x", (i*7919)%50) }; sort.Strings(a); return len(a[0]) }
func main() {
  c := make(chan int)
  for g := 0; g < 3; g++ { go func() { for { c <- deep(30) + sorted(300) } }() }
  fmt.Println("ready")
  s := 0
  for { s += <-c; m := map[int]int{}; for i := 0; i < 1000; i++ { m[i*s] = i } }
}
"""

RUST = r"""
use std::collections::BTreeMap;
#[inline(never)]
fn deep(n: usize, m: &mut BTreeMap<String, usize>) -> usize {
    if n == 0 { m.insert(format!("{:?}", m.len() % 500), m.len()); return m.values().sum(); }
    deep(n - 1, m).wrapping_add(n)
}
fn main() {
    println!("ready");
    let mut m = BTreeMap::new();
    let mut total = 0usize;
    loop {
        total = total.wrapping_add(deep(20, &mut m));
        let mut v: Vec<String> = (0..500).map(|i| ((i * 7919 + total) % 1000).to_string()).collect();
        v.sort_by(|a, b| b.cmp(a));
        total ^= v[0].len();
    }
}
"""

NODE = r"""
function deep(n) { return n === 0 ? JSON.stringify({n, s: "x".repeat(n + 5)}).length : deep(n - 1) + 1; }
function sorted(n) { return Array.from({length: n}, (_, i) => (i * 7919) % 1000).sort((a, b) => b - a)[0]; }
console.log("ready");
let s = 0;
for (;;) s = (s + deep(40) + sorted(500) + "abc".replace(/b/g, String(s)).length) | 0;
"""

JAVA = r"""
import java.util.*;
public class Busy {
  static int deep(int n, Map<String, Integer> m) {
    if (n == 0) { m.merge("k" + m.size() % 100, 1, Integer::sum); return m.size(); }
    return deep(n - 1, m) + 1;
  }
  public static void main(String[] a) {
    System.out.println("ready");
    long s = 0;
    Map<String, Integer> m = new HashMap<>();
    for (;;) {
      s += deep(30, m);
      Integer[] v = new Integer[500];
      for (int i = 0; i < v.length; ++i) v[i] = (int) ((i * 7919L + s) % 1000);
      Arrays.sort(v, (x, y) -> y - x);
      s ^= v[0];
    }
  }
}
"""

C = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int by_value(const void* a, const void* b) { return *(const int*)a - *(const int*)b; }
static long __attribute__((noinline)) deep(long n) {
  if (n == 0) { char text[64]; return snprintf(text, sizeof text, "%ld %f", n, n / 3.0); }
  volatile long here = n;
  return deep(n - 1) + here;
}
int main(void) {
  puts("ready"); fflush(stdout);
  static int values[1000];
  for (unsigned long n = 0, s = 0;; ++n) {
    for (int i = 0; i < 1000; ++i) values[i] = (int)((i * 7919L + n) % 1000);
    qsort(values, 1000, sizeof *values, by_value);
    s += deep(25) + values[0];
    char* m = malloc(s % 5000 + 1); memset(m, 1, s % 5000 + 1); free(m);
  }
}
"""

SIGNALS = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
static volatile unsigned long sum;
static void __attribute__((noinline)) spin(unsigned long n) { for (unsigned long i = 0; i < n; ++i) sum += i ^ n; }
static void __attribute__((noinline)) nested(int n) { if (n) nested(n - 1); else spin(200000); sum++; }
static void on_signal(int s) { nested(5); (void)s; }
int main(int count, char** arguments) {
  struct sigaction action; memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  if (count > 1) {
    stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    sigaltstack(&stack, NULL); action.sa_flags = SA_ONSTACK;
  }
  sigaction(SIGALRM, &action, NULL);
  struct itimerval timer = {{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &timer, NULL);
  puts("ready"); fflush(stdout);
  for (;;) { nested(12); char* m = malloc(100 + sum % 1000); m[0] = 1; free(m); }
}
"""

FIBRES = r"""
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
static ucontext_t main_context, fibres[8];
static volatile unsigned long sum;
static int current;
static void __attribute__((noinline)) nested(int n) {
  if (n) nested(n - 1);
  else { for (int i = 0; i < 20000; ++i) sum += i; swapcontext(&fibres[current], &main_context); }
  sum++;
}
static void run(void) { for (;;) nested(10); }
int main(void) {
  for (int i = 0; i < 8; ++i) {
    getcontext(&fibres[i]);
    fibres[i].uc_stack.ss_sp = malloc(1 << 16); fibres[i].uc_stack.ss_size = 1 << 16;
    makecontext(&fibres[i], run, 0);
  }
  puts("ready"); fflush(stdout);
  for (;;) for (current = 0; current < 8; ++current) swapcontext(&main_context, &fibres[current]);
}
"""

DEEP = r"""
#include <stdio.h>
static volatile unsigned long sum;
static void __attribute__((noinline)) deep(int n) {
  if (n) deep(n - 1); else for (int i = 0; i < 100000; ++i) sum += i;
  sum++;
}
int main(void) { puts("ready"); fflush(stdout); for (;;) deep(2000); }
"""


def compiled(*command):
    """How C programs are built: command, and options."""
    return lambda place, source: build(place, source, "p.c", [*command, "-o", f"{place}/p", f"{place}/p.c"])


def build(place, source, name, command, run=None):
    with open(os.path.join(place, name), "w", encoding="utf-8") as file:
        file.write(source)
    if command:
        subprocess.run(command, check=True, cwd=place, env={**os.environ, "GOCACHE": f"{place}/cache",
                                                            "GOFLAGS": "-mod=mod", "GO111MODULE": "off"})
    return run or [f"{place}/p"]


def programs(cc):
    plain = ["-O2", "-fomit-frame-pointer"]
    return {
        "c": (C, compiled(cc, *plain)),
        "clang": (C, compiled("clang", *plain)),
        "static-pie": (C, compiled(cc, *plain, "-static-pie")),
        "musl-static": (C, compiled("musl-gcc", *plain, "-static")),
        "go": (GO, lambda place, source: build(place, source, "p.go",
                                               ["go", "build", "-o", f"{place}/p", f"{place}/p.go"])),
        "rust": (RUST, lambda place, source: build(place, source, "p.rs",
                                                   ["rustc", "-O", "-o", f"{place}/p", f"{place}/p.rs"])),
        "node": (NODE, lambda place, source: build(place, source, "p.js", None, ["node", f"{place}/p.js"])),
        "java": (JAVA, lambda place, source: build(
            place, source, "Busy.java", ["javac", "Busy.java"],
            ["java", "-XX:+PreserveFramePointer", "-Xmx200m", "-cp", place, "Busy"])),
        "signals": (SIGNALS, compiled(cc, *plain)),
        "signals-on-a-stack": (SIGNALS, lambda place, source: compiled(cc, *plain)(place, source) + ["alt"]),
        "fibres": (FIBRES, compiled(cc, *plain)),
        "deep": (DEEP, compiled(cc, *plain)),
    }


def compare(vitrine, name, source, make):
    """Returns what is wrong, or an empty text."""
    with tempfile.TemporaryDirectory(prefix="agreement-") as place:
        command = make(place, source)
        target = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            if target.stdout.readline() != "ready\n":
                return "it did not start"
            run = subprocess.run(
                [vitrine, "profile", str(target.pid), "--freq", "999", "--duration", "4s",
                 "--unwind", "kernel", "--verify-unwind", "--stack-bytes", "65536", "--format", "folded"],
                capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, check=False)
        finally:
            target.send_signal(signal.SIGKILL)
            target.wait()
    notes = [line for line in run.stderr.splitlines() if "agree" in line or "differs" in line]
    print(f"{name}:", *notes, sep="\n  ")
    if re.search(r"\d+ samples were lost", run.stderr):
        return "samples were lost"
    if name == "deep":  # too deep for the kernel: cut, marked, and its root is kept
        whole = [line for line in run.stdout.splitlines() if "[frames omitted]" in line]
        if "stacks without their middle" not in run.stderr or not whole:
            return "its stacks are not marked as too deep"
        return "" if all(re.search(r"(^|;)main;", line) for line in whole) else "its root is not kept"
    found = re.search(r"(\d+) of (\d+) agree", run.stderr)
    if not found and "stacks unwound in the kernel: 0" not in run.stderr:
        return f"nothing was compared: {run.stderr}"
    agreed, compared = map(int, found.groups()) if found else (0, 0)
    # Their outermost frames have no rule that the kernel could go by: counted, and taken from copies.
    if name in ("musl-static", "fibres") and "no rule for the kernel" in run.stderr:
        if "main;" not in run.stdout and "run;nested" not in run.stdout:
            return "its stacks from copies are not whole"
        compared = max(compared, 100 if agreed == compared else 0)
        agreed = compared
    if compared < 100:
        return f"only {compared} were compared"
    return "" if agreed * 1000 >= compared * 995 else f"{agreed} of {compared} agree"


def main():
    vitrine, cc, *names = sys.argv[1:]
    known = programs(cc)
    failed = False
    for name in names or known:
        problem = compare(vitrine, name, *known[name])
        failed |= bool(problem)
        print(f"{name}: {'FAILED ' + problem if problem else 'agrees'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
