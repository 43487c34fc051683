#!/usr/bin/env python3
"""vitrine trace and probes of functions: what fires, with which arguments, for how long; and what bpftrace sees of the
same calls.

    trace_functions.py VITRINE CC CXX PART
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

SHOP = r"""
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <unistd.h>
#define KEPT __attribute__((noinline, noclone))
#define BARRIER asm volatile("" ::: "memory")
enum Colour { red = 1, green = 7 };
struct Pair { double x, y; };
struct Big { long a[5]; };
struct Two { int a; long b; };
namespace shop {
struct Order {
  int id;
  KEPT int charge(int amount, const char* item);
  KEPT int charge(double amount, bool really);
  static KEPT long total(Pair p, Two t, unsigned char c, Big b, long last, Colour colour, int g, int h, short i);
};
int Order::charge(int amount, const char* item) { BARRIER; return amount * 2 + (item[0] == 'z') + id; }
int Order::charge(double amount, bool really) { BARRIER; return int(amount) + really + id; }
long Order::total(Pair p, Two t, unsigned char c, Big b, long last, Colour colour, int g, int h, short i) {
  BARRIER;
  return long(p.x) + t.a + c + b.a[4] + last + colour + g + h + i;
}
template <class T> KEPT T largest(T a, T b) { BARRIER; return a > b ? a : b; }
KEPT std::size_t name(std::string_view text, std::string copy) { BARRIER; return text.size() + copy.size(); }
}
extern "C" KEPT unsigned recurse(unsigned n) {
  BARRIER;
  if (n == 0) { usleep(1000); return 0; }
  unsigned r = recurse(n - 1) + n;
  BARRIER;
  return r;
}
extern "C" KEPT Big make(int seed) { Big b{}; b.a[0] = seed; BARRIER; return b; }
extern "C" KEPT int twin(int x) { BARRIER; return x + 1; }
extern "C" int alias_of_twin(int) __attribute__((alias("twin")));
static inline __attribute__((always_inline)) int gone(int x) { return x * 5; }
static KEPT int hidden(int x) { BARRIER; return x + 3; }
int main() {
  long sink = 0;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  puts("ready");
  char line[64];
  while (fgets(line, sizeof line, stdin)) {
    for (int i = 0, n = atoi(line); i < n; ++i) {
      shop::Order o{i};
      sink += o.charge(i, i % 2 ? "apple" : "zebra");
      sink += o.charge(i * 0.5, i % 3 == 0);
      sink += shop::Order::total({1.0, 2.0}, {i, 5}, 200, {{0, 0, 0, 0, i}}, -i, i % 2 ? red : green, -7, i, -9);
      sink += shop::largest<int>(i, 5) + shop::name(std::string_view("abcdef").substr(0, 4), "a copy that is long");
      sink += hidden(i) + recurse(3) + make(i).a[0] + gone(i) + twin(i);
    }
    printf("done %ld\n", sink);
  }
}
"""

# Functions that exceptions leave, that end in others, that have tables, and parts elsewhere.
LEAVING = r"""
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <ucontext.h>
#define KEPT __attribute__((noinline, noclone))
#define BARRIER asm volatile("" ::: "memory")
// Functions of C, by their names: one that an exception passes, and one that begins and ends on a fibre.
KEPT int ten_times(int n) {
  if (n % 2 != 0) throw std::runtime_error("odd");
  return n * 10;
}
extern "C" KEPT int calls(int n, int (*callback)(int)) {
  const int got = callback(n) + 1;
  BARRIER;
  return got;
}
ucontext_t here, fibre;
char stack[65536];
extern "C" KEPT int works(int n) {
  swapcontext(&fibre, &here);  // is left within
  BARRIER;
  return n + 2;
}
void on_fibre() {
  works(5);
  swapcontext(&fibre, &here);
}
namespace shop {
KEPT int guarded(int n) {
  if (n % 2 != 0) throw std::runtime_error("odd");
  BARRIER;
  return n * 10;
}
KEPT int around(int n) {
  std::string text(40, 'x');
  const int got = guarded(n) + int(text.size());
  BARRIER;
  return got;
}
KEPT int recurse(int n, bool fails) {
  if (n == 0 && fails) throw n;
  const int below = n == 0 ? 0 : recurse(n - 1, fails) + n;
  BARRIER;
  return below;
}
KEPT int choose(int n, int m) {
  switch (n) {
    case 0: asm volatile("nop" ::: "memory"); return m + 1;
    case 1: asm volatile("nop; nop" ::: "memory"); return m * 3;
    case 2: asm volatile("nop; nop; nop" ::: "memory"); return m - 7;
    case 3: asm volatile("nop; nop; nop; nop" ::: "memory"); return m ^ 5;
    case 4: asm volatile("nop; nop; nop; nop; nop" ::: "memory"); return m & 6;
    case 5: asm volatile("nop; nop; nop; nop; nop; nop" ::: "memory"); return m | 9;
    default: asm volatile("nop; nop; nop; nop; nop; nop; nop" ::: "memory"); return -m;
  }
}
KEPT int ends_in(int n) { BARRIER; return choose(n, 100); }
KEPT __attribute__((cold)) void complain() { BARRIER; }
KEPT int rare(int n) {
  if (n == 3) { complain(); return -3; }
  BARRIER;
  return n;
}
}
int main() {
  long sink = 0;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  puts("ready");
  char line[64];
  while (fgets(line, sizeof line, stdin)) {
    for (int i = 0, n = atoi(line); i < n; ++i) {
      try { sink += shop::around(i); } catch (const std::exception&) {}
      try { sink += shop::recurse(3, i % 2 != 0); } catch (int) {}
      try { sink += calls(i, ten_times); } catch (const std::exception&) {}
      int numbers[] = {i, 2, 1};
      try {
        qsort(numbers, 3, sizeof(int), [](const void*, const void* b) { return ten_times(*static_cast<const int*>(b)); });
      } catch (const std::exception&) {}
      getcontext(&fibre);
      fibre.uc_stack.ss_sp = stack;
      fibre.uc_stack.ss_size = sizeof stack;
      makecontext(&fibre, on_fibre, 0);
      for (int part = 0; part < 2; ++part) swapcontext(&here, &fibre);
      sink += shop::ends_in(i) + shop::rare(i);
    }
    printf("done %ld\n", sink);
  }
}
"""

PLUGIN = "int plugged(int value, const char *text) { return value + text[0]; }\n"
LOADER = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  puts("ready");
  char line[64];
  int (*plugged)(int, const char *) = 0;
  while (fgets(line, sizeof line, stdin)) {
    if (line[0] == 'l') {
      void *library = dlopen(argv[1], RTLD_NOW);
      plugged = (int (*)(int, const char *))dlsym(library, "plugged");
    } else {
      plugged(atoi(line), "text");
    }
    puts("done");
  }
}
"""

GO = r"""
package main
import ("bufio"; "fmt"; "os"; "strconv"; "strings")
type Server struct{ n int }
//go:noinline
func (s *Server) Handle(id int, name string) int { s.n += id; return s.n + len(name) }
func main() {
  s := &Server{}
  fmt.Println("ready")
  in := bufio.NewScanner(os.Stdin)
  for in.Scan() {
    n, _ := strconv.Atoi(strings.TrimSpace(in.Text()))
    for i := 0; i < n; i++ { s.Handle(i, "abc") }
    fmt.Println("done")
  }
}
"""


# Parameters that callers do not pass when it is optimised, and enumerators beyond a signed byte.
OPTIMISED = r"""
#include <stdio.h>
#include <stdlib.h>
#define ALONE static __attribute__((noinline))
enum http { err = -56, ok = 200, not_found = 404, big = 40000 };
ALONE int byptr(int *s, int unused, int k) { __asm__ volatile("" :: "r"(*s), "r"(k)); return *s + k; }
ALONE int konst(int mode, int k) { __asm__ volatile("" :: "r"(k + mode)); return k * mode; }
ALONE int dead(int gone, int live) { __asm__ volatile("" :: "r"(live)); return live; }
__attribute__((noinline)) int reply(enum http s) { __asm__ volatile("" :: "r"(s) : "memory"); return s; }
int main(void) {
  char line[64];
  puts("ready");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    static const enum http all[] = {err, ok, not_found, big};
    for (int i = 0, n = atoi(line); i < n; ++i) {
      byptr(&i, 111, 222);
      konst(5, i);
      dead(777, i);
      reply(all[i % 4]);
    }
    puts("done");
    fflush(stdout);
  }
}
"""


# A loop that begins with its function, and a function that calls itself by its address.
LOOPS = r"""
#include <stdio.h>
#include <stdlib.h>
void spins(int rounds);
void calls_itself(int times);
__asm__(".text\n"
        ".type spins, @function\n"
        "spins: decl %edi\n"
        "  jnz spins\n"
        "  ret\n"
        ".size spins, . - spins\n"
        ".type calls_itself, @function\n"
        "calls_itself: decl %edi\n"
        "  jz 1f\n"
        "  leaq calls_itself(%rip), %rax\n"
        "  subq $8, %rsp\n"
        "  call *%rax\n"
        "  addq $8, %rsp\n"
        "1: ret\n"
        ".size calls_itself, . - calls_itself\n");
int main(void) {
  char line[64];
  puts("ready");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    for (int i = 0, n = atoi(line); i < n; ++i) {
      spins(3);
      calls_itself(3);
    }
    puts("done");
    fflush(stdout);
  }
}
"""

LOCKED = r"""
#include <stdio.h>
#include <stdlib.h>
static long total;
__attribute__((noinline, noclone)) void adds(long n) { __atomic_fetch_add(&total, n, __ATOMIC_SEQ_CST); }
__attribute__((noinline, noclone)) long other(long n) {
  __asm__ volatile("" ::: "memory");
  return n + total;
}
int main(void) {
  char line[64];
  long sink = 0;
  setvbuf(stdout, NULL, _IOLBF, 0);
  puts("ready");
  while (fgets(line, sizeof line, stdin)) {
    for (int i = 0, n = atoi(line); i < n; ++i) {
      sink += other(i);
      adds(i);
    }
    printf("done %ld\n", sink);
  }
}
"""


class Target:
    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        self.pid = str(self.process.pid)

    def ask(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        said = self.process.stdout.readline()
        assert said.startswith("done"), said

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        assert self.process.wait() == 0
        self.process.stdout.close()


class Tracer:
    """A trace that has attached, and is ended by an interrupt."""

    def __init__(self, vitrine, *arguments):
        self.process = subprocess.Popen([vitrine, "trace", *arguments, "--json"], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.said = ""
        while "tracing " not in self.said:
            line = self.process.stderr.readline()
            assert line, f"{arguments}: {self.said}"
            self.said += line

    def end(self):
        time.sleep(0.2)
        self.process.send_signal(2)
        out, err = self.process.communicate(timeout=60)
        self.said += err
        return [json.loads(line) for line in out.splitlines()]


def refused(vitrine, *arguments):
    done = subprocess.run([vitrine, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode not in (0, 130), f"{arguments}: {done.stdout} {done.stderr}"
    return done.stderr


def fires(vitrine, target, count, *arguments):
    tracer = Tracer(vitrine, target.pid, *arguments)
    target.ask(count)
    events = tracer.end()
    assert not any("lost" in event for event in events), events
    return events


def check_arguments(vitrine, target):
    """Names, types and values by debug information: what the program was compiled to pass."""
    n = 6
    events = fires(vitrine, target, n, "func:*shop*:shop::Order::charge")
    first = [event for event in events if "(int, char const*)" in event["probe"]]
    second = [event for event in events if "(double, bool)" in event["probe"]]
    assert len(first) == len(second) == n, events
    for i, event in enumerate(first):
        assert event["args"][1:] == [i, "apple" if i % 2 else "zebra"], event
        assert event["args"][0].startswith("0x"), event
    for i, event in enumerate(second):
        assert event["args"][2] is (i % 3 == 0), event
        assert "vector register" in event["args"][1]["error"], event
    assert fires(vitrine, target, n, "func:*shop*:shop::Order::charge(int*", "--where", "amount > 3",
                 "--show", "amount") != []
    values = [event["args"] for event in fires(vitrine, target, n, "func:*shop*:shop::Order::charge(int*",
                                               "--where", "amount > 3", "--show", "amount, item")]
    assert values == [[4, "zebra"], [5, "apple"]], values
    totals = fires(vitrine, target, n, "func:*shop*:shop::Order::total", "--show", "c, last, colour, g, h, i")
    assert [event["args"] for event in totals] == [
        [200, -i, "red" if i % 2 else "green", -7, i, -9] for i in range(n)], totals
    largest = fires(vitrine, target, n, "func:*shop*:shop::largest*")
    assert [event["args"] for event in largest] == [[i, 5] for i in range(n)], largest
    names = fires(vitrine, target, n, "func:*shop*:shop::name", "--show", "text")
    assert [event["args"] for event in names] == [["abcd"]] * n, names
    results = fires(vitrine, target, n, "func:*shop*:twin:return")
    assert [event["args"] for event in results] == [[i + 1] for i in range(n)], results
    assert len(fires(vitrine, target, n, "func:*shop*:alias_of_twin")) == n
    assert len(fires(vitrine, target, n, "func:*shop*:*twin*")) == n  # one site with two names
    made = fires(vitrine, target, n, "func:*shop*:make", "--show", "seed")
    assert [event["args"] for event in made] == [[i] for i in range(n)], made
    hidden = fires(vitrine, target, n, "func:*shop*:hidden*", "--show", "arg0")
    assert [event["args"] for event in hidden] == [[i] for i in range(n)], hidden


def check_latency(vitrine, target):
    """Each call is a value of its own, also those that call themselves."""
    rows = fires(vitrine, target, 5, "--latency", "func:*shop*:recurse")
    assert len(rows) == 1 and rows[0]["count"] == 20, rows
    assert rows[0]["min"] >= 1_000_000, rows  # all of them wait for the innermost
    assert "without_start" not in rows[0] and "without_end" not in rows[0], rows
    rows = fires(vitrine, target, 5, "--latency", "func:*shop*:recurse", "--where", "n == 1")
    assert rows[0]["count"] == 5 and len(rows) == 1, rows
    rows = fires(vitrine, target, 5, "--latency", "func:*shop*:recurse", "--where", "return == 6")
    assert rows[0]["count"] == 5, rows
    rows = fires(vitrine, target, 5, "--latency", "func:*shop*:[rt][ew]*", "--by", "return")
    by = {(row["probe"].split(":")[-1], row["by"]["return"]): row["count"] for row in rows if "probe" in row}
    assert {key: by[key] for key in by if key[0] == "recurse"} == {
        ("recurse", 0): 5, ("recurse", 1): 5, ("recurse", 3): 5, ("recurse", 6): 5}, rows
    assert {key: by[key] for key in by if key[0] == "twin"} == {("twin", i + 1): 1 for i in range(5)}, rows


def check_refusals(vitrine, target, program):
    said = refused(vitrine, "trace", target.pid, "func:*shop*:shop::Order::charg")
    assert "shop::Order::charge" in said, said
    said = refused(vitrine, "trace", target.pid, "func:*shop*:Order::charge")
    assert "shop::Order::charge" in said, said
    said = refused(vitrine, "trace", target.pid, "func:*shop*:gone")
    assert "inlined" in said, said
    said = refused(vitrine, "trace", target.pid, "func:*shop*:usleep")
    assert "imported" in said, said
    said = refused(vitrine, "trace", target.pid, "func:libshopp:f")
    assert "has no file libshopp" in said, said
    said = refused(vitrine, "trace", target.pid, "func:libc:strlen")
    assert "IFUNC" in said, said
    said = refused(vitrine, "trace", target.pid, "func:libc:_setjmp:return")
    assert "twice" in said, said
    said = refused(vitrine, "trace", target.pid, "func::f")
    assert "missing" in said, said
    said = refused(vitrine, "probes", "func:libc:mallok")
    assert "malloc" in said, said
    address = symbols(program)["recurse"]
    assert len(fires(vitrine, target, 2, f"func:*shop*:{address:#x}")) == 8
    said = refused(vitrine, "trace", target.pid, f"func:*shop*:{address + 1:#x}")
    assert "--force" in said, said


def symbols(program):
    out = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    return {line.split()[2]: int(line.split()[0], 16) for line in out.splitlines() if len(line.split()) == 3}


def check_peer(vitrine, target, program):
    """bpftrace attaches to the same functions at the same time, and sees the same."""
    if shutil.which("bpftrace") is None:
        print("not compared with bpftrace: it is not installed")
        return
    script = (f'uprobe:{program}:recurse {{ printf("in %d\\n", arg0); }} '
              f'uretprobe:{program}:recurse {{ printf("out %d\\n", retval); }} '
              f'uprobe:{program}:twin {{ @t[tid] = nsecs; }} '
              f'uretprobe:{program}:twin /@t[tid]/ {{ @spent = sum(nsecs - @t[tid]); @calls = count(); delete(@t[tid]); }} '
              'BEGIN { printf("begun\\n"); }')
    with subprocess.Popen(["bpftrace", "-p", target.pid, "-e", script], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as peer:
        while peer.stdout.readline() != "begun\n":
            assert peer.poll() is None
        deadline = time.monotonic() + 30
        tracer = Tracer(vitrine, target.pid, "func:*shop*:recurse", "func:*shop*:recurse:return")
        durations = Tracer(vitrine, target.pid, "--latency", "func:*shop*:twin")
        time.sleep(1)
        target.ask(200)
        ours = [("in" if not event["probe"].endswith(":return") else "out", event["args"][0])
                for event in tracer.end()]
        rows = durations.end()
        peer.send_signal(2)
        said = peer.stdout.read()
    theirs = [(word, int(number)) for word, number in re.findall(r"^(in|out) (\d+)$", said, re.M)]
    assert time.monotonic() < deadline + 120
    assert sorted(ours) == sorted(theirs) and len(ours) == 1600, (len(ours), len(theirs))
    calls = int(re.search(r"@calls: (\d+)", said)[1])
    spent = int(re.search(r"@spent: (\d+)", said)[1])
    assert rows[0]["count"] == calls == 200, (rows, calls)
    # Both measure the other's probes, too: they differ by a part of what a breakpoint takes.
    assert abs(rows[0]["sum"] - spent) < 200 * 50_000, (rows[0]["sum"], spent)


def shop(vitrine, _, cxx, folder):
    source = os.path.join(folder, "shop.cpp")
    with open(source, "w") as file:
        file.write(SHOP)
    for options in (["-O2"], ["-O0"], ["-O2", "-no-pie"]):
        program = os.path.join(folder, "shop" + "".join(options))
        subprocess.run([cxx, "-std=c++17", "-g", *options, "-o", program, source], check=True)
        with Target(program) as target:
            check_arguments(vitrine, target)
            if options == ["-O2"]:
                check_latency(vitrine, target)
                check_refusals(vitrine, target, program)
                check_peer(vitrine, target, program)
    listed = subprocess.run([vitrine, "probes", f"func:{folder}/shop-O2:shop::*", "--json"], capture_output=True,
                            text=True, check=True).stdout
    by_name = {probe["name"]: probe for probe in map(json.loads, listed.splitlines())}
    charge = by_name["shop::Order::charge(int, char const*)"]
    assert charge["kind"] == "function", charge
    assert charge["sites"][0]["arg_names"] == ["this", "amount", "item"], charge
    assert charge["sites"][0]["types"] == ["Order * const", "int", "const char *"], charge


def leaving(vitrine, _, cxx, folder):
    """Where functions of C++ are left: each return fires, with its result, and exceptions go on as before."""
    source, n = os.path.join(folder, "leaving.cpp"), 8
    with open(source, "w") as file:
        file.write(LEAVING)
    for number, options in enumerate((["-O2"], ["-O0"], ["-O2", "-fcf-protection", "-no-pie", "-fno-pic"])):
        program = os.path.join(folder, f"leaving{number}")
        subprocess.run([cxx, "-std=c++17", "-g", *options, "-o", program, source], check=True)
        with Target(program) as target:
            names = ("guarded", "around", "choose", "rare", "ends_in")
            events = fires(vitrine, target, n, *(f"func:*:shop::{name}{end}" for name in names for end in ("", ":return")))
            results = {}
            for name in names:
                its = [event for event in events if f"shop::{name}(" in event["probe"]]
                returns = [event for event in its if event["probe"].endswith(":return")]
                assert len(its) - len(returns) == n, (options, name, events)
                results[name] = [event["args"][0] for event in returns]
            assert results["guarded"] == [0, 20, 40, 60], (options, results)
            assert results["around"] == [40, 60, 80, 100], (options, results)
            chosen = [101, 300, 93, 97, 4, 109, -100, -100]
            assert results["choose"] == chosen, (options, results)
            assert results["rare"] == [0, 1, 2, -3, 4, 5, 6, 7], (options, results)
            # It may end in a jump to the other, which has the result.
            assert results["ends_in"] == chosen or all(
                "ends in a call" in result["error"] for result in results["ends_in"]), (options, results)
            assert len(results["ends_in"]) == n, (options, results)
            # Of calls that an exception has left, there is no duration; the others have theirs.
            for name, count in (("guarded", n // 2), ("recurse", 4 * n // 2), ("choose", n), ("ends_in", n),
                                ("rare", n)):
                rows = fires(vitrine, target, n, "--latency", f"func:*:shop::{name}")
                assert rows[0]["count"] == count, (options, name, rows)
                assert all("without_start" not in row for row in rows), (options, name, rows)
            rows = fires(vitrine, target, n, "--latency", "func:*:shop::guarded", "--where", "return > 20")
            assert rows[0]["count"] == 2, (options, rows)
            results = {name: [event["args"][0] for event in fires(vitrine, target, n, f"func:leaving*:{name}:return")]
                       for name in ("calls", "works")}
            assert results == {"calls": [1, 21, 41, 61], "works": [7] * n}, (options, results)
            rows = fires(vitrine, target, n, "--latency", "func:leaving*:works")
            assert rows[0]["count"] == n, (options, rows)
            fires(vitrine, target, n, "func:libc:qsort:return")  # an exception passes it


def stripped(vitrine, _, cxx, folder):
    """Registers without debug information; names from mini debug information, and addresses without any."""
    source, program = os.path.join(folder, "shop.cpp"), os.path.join(folder, "shop")
    with open(source, "w") as file:
        file.write(SHOP)
    subprocess.run([cxx, "-std=c++17", "-O2", "-o", program, source], check=True)
    address = symbols(program)["recurse"]
    mini = os.path.join(folder, "mini")
    subprocess.run(["objcopy", "--only-keep-debug", program, mini + ".debug"], check=True)
    subprocess.run(["xz", "-k", mini + ".debug"], check=True)
    plain = os.path.join(folder, "plain")
    subprocess.run(["strip", "-s", "-o", plain, program], check=True)
    subprocess.run(["objcopy", "--add-section", f".gnu_debugdata={mini}.debug.xz", plain, mini], check=True)
    with Target(mini) as target:
        events = fires(vitrine, target, 2, f"func:{mini}:recurse")
        assert [event["args"][0] for event in events] == [3, 2, 1, 0] * 2, events
        assert all(len(event["args"]) == len(events[0]["args"]) >= 6 for event in events), events
    with Target(plain) as target:
        said = refused(vitrine, "trace", target.pid, "func:plain:recurse")
        assert "has no function recurse" in said, said
        events = fires(vitrine, target, 2, f"func:plain:{address:#x}")
        assert [event["args"][0] for event in events] == [3, 2, 1, 0] * 2, events
        rows = fires(vitrine, target, 2, "--latency", f"func:plain:{address:#x}")
        assert rows[0]["count"] == 8, rows


def plugin(vitrine, cc, _, folder):
    """A library that is loaded later, and a C library without debug information."""
    library, program = os.path.join(folder, "libplug.so.1"), os.path.join(folder, "loader")
    for path, text, options in ((library, PLUGIN, ["-shared", "-fPIC", "-g"]), (program, LOADER, ["-ldl"])):
        with open(path + ".c", "w") as file:
            file.write(text)
        subprocess.run([cc, "-O1", "-o", path, path + ".c", *options], check=True)
    with Target(program, library) as target:
        tracer = Tracer(vitrine, target.pid, "func:libplug:plugged", "func:loader:main", "--optional")
        target.ask("load")
        time.sleep(1)
        target.ask("42")
        events = tracer.end()
        assert [event["args"] for event in events] == [[42, "text"]], events
        assert events[0]["probe"] == "func:libplug:plugged", events
        events = fires(vitrine, target, "7", "func:libc:puts", "--show", "str(arg0) as text")
        assert [event["args"] for event in events] == [["done"]], events
    # Without a process: every process that uses the file.
    with Tracer(vitrine, f"func:{library}:plugged", "--limit", "1").process as tracer:
        with Target(program, library) as target:
            target.ask("load")
            target.ask("5")
        assert json.loads(tracer.stdout.readline())["args"] == [5, "text"]
        assert tracer.wait(timeout=60) == 0


def go(vitrine, _cc, _cxx, folder):
    tool = shutil.which("go") or ("/usr/local/go/bin/go" if os.path.exists("/usr/local/go/bin/go") else None)
    if tool is None:
        print("no Go program was traced: Go is not installed")
        return
    source = os.path.join(folder, "served.go")
    with open(source, "w") as file:
        file.write(GO)
    environment = dict(os.environ, GOCACHE=os.path.join(folder, "cache"), GOFLAGS="-mod=mod", HOME=folder)
    for name, flags in (("served", []), ("bare", ["-ldflags", "-s -w"])):
        program = os.path.join(folder, name)
        subprocess.run([tool, "build", *flags, "-o", program, source], check=True, env=environment, cwd=folder)
        with Target(program) as target:
            events = fires(vitrine, target, 3, f"func:{name}:main.(*Server).Handle")
            assert len(events) == 3, events
            if name == "served":
                assert [event["args"][1:] for event in events] == [[i, "abc"] for i in range(3)], events
            else:
                assert [event["args"][1] for event in events] == [0, 1, 2], events
                assert [event["args"][3] for event in events] == [3, 3, 3], events  # the length of "abc"
            returns = fires(vitrine, target, 3, f"func:{name}:main.(*Server).Handle:return")
            assert len(returns) == 3, returns
            rows = fires(vitrine, target, 3, "--latency", f"func:{name}:main.(*Server).Handle")
            assert rows[0]["count"] == 3, rows
            said = refused(vitrine, "trace", target.pid, f"func:{name}:main.(*Server).Handel")
            assert "main.(*Server).Handle" in said, said


def optimised(vitrine, cc, _, folder):
    """What is shown is what was passed, a constant, or that it is not known: never another value."""
    source = os.path.join(folder, "optimised.c")
    with open(source, "w") as file:
        file.write(OPTIMISED)
    for compiler in sorted({cc, *filter(None, map(shutil.which, ("gcc", "clang")))}):
        for option in ("-O0", "-O2"):
            program = os.path.join(folder, "optimised")
            subprocess.run([compiler, "-g", option, "-o", program, source], check=True)
            with Target(program) as target:
                for name, true in (("byptr", {"unused": 111, "k": 222}), ("konst", {"mode": 5}), ("dead", {"gone": 777})):
                    for argument, value in true.items():
                        got = [event["args"][0] for event in fires(vitrine, target, 4, f"func:*:{name}*", "--show", argument)]
                        assert got == [value] * 4 or all("optimised" in str(one) for one in got), (
                            compiler, option, name, argument, got)
                got = fires(vitrine, target, 4, "func:*:konst*", "--where", "mode == 5", "--show", "mode")
                assert len(got) == 4, (compiler, option, got)
                got = [event["args"] for event in fires(vitrine, target, 8, "func:*:reply")]
                assert got == [["err"], ["ok"], ["not_found"], ["big"]] * 2, (compiler, option, got)
                got = [event["args"] for event in fires(vitrine, target, 8, "func:*:reply", "--where", "s == ok")]
                assert got == [["ok"]] * 2, (compiler, option, got)


def loops(vitrine, cc, _, folder):
    """Rounds of a loop that begins with its function fire, which a note says. Calls of a function by itself are calls."""
    program = os.path.join(folder, "loops")
    with open(program + ".c", "w") as file:
        file.write(LOOPS)
    subprocess.run([cc, "-O1", "-o", program, program + ".c"], check=True)
    said = "its first instruction begins a loop, to which the jump at"
    with Target(program) as target:
        for name, is_loop in (("spins", True), ("calls_itself", False)):
            tracer = Tracer(vitrine, target.pid, f"func:loops:{name}")
            target.ask(2)
            assert len(tracer.end()) == 6, name
            assert (said in tracer.said) == is_loop, (name, tracer.said)
            listed = subprocess.run([vitrine, "probes", program, f"func:loops:{name}", "--sites"], capture_output=True,
                                    text=True, check=True)
            assert (said in listed.stdout) == is_loop, (name, listed)


def locked(vitrine, cc, _, folder):
    """A function whose first instruction the kernel refuses: that is no probe that has not fired."""
    program = os.path.join(folder, "locked")
    with open(program + ".c", "w") as file:
        file.write(LOCKED)
    subprocess.run([cc, "-O2", "-fcf-protection=none", "-o", program, program + ".c"], check=True)

    def ends_with(message, *arguments):
        done = subprocess.run([vitrine, "trace", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert done.returncode == 1 and message in done.stderr, (arguments, done)
        assert "the kernel cannot put a uprobe on the instruction" in done.stderr, (arguments, done)
        assert "tracing" not in done.stderr or "--latency" in arguments, (arguments, done)

    with Target(program) as target:
        pid = str(target.pid)
        ends_with("nothing to trace: ", pid, "func:locked:adds")
        ends_with("nothing to measure, because no start could be attached to: ", pid, "--latency", "func:locked:adds")
        ends_with("nothing to measure, because no end could be attached to: ", pid, "--latency",
                  "func:locked:other,func:locked:adds")
    ends_with("none of the probes that match could be attached to", "func:locked:adds", "--", program)
    ends_with("nothing was measured: no start could be attached to", "--latency", "func:locked:adds", "--", program)


def main(vitrine, cc, cxx, part):
    with tempfile.TemporaryDirectory() as folder:
        {"shop": shop, "leaving": leaving, "stripped": stripped, "plugin": plugin, "go": go, "optimised": optimised,
         "loops": loops, "locked": locked}[part](vitrine, cc, cxx, os.path.realpath(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
