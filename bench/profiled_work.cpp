// A program whose work is always the same, to see what profiling it costs. For each line:
//
//   run COUNT       that many pieces of work, some 20 us each, ten calls deep, with labels in force
//   deep COUNT      the same in stacks of 23 frames
//   switch COUNT    a byte goes to another thread and back that often: two threads leave their CPU
//   hop COUNT       the same with so much work before each that on one CPU 50,000 leave it in a second (as measured
//                   at the first such line)
//
// and it prints the nanoseconds that one took.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vitrine/labels.hpp>

namespace {

namespace labels = vitrine::labels;
volatile std::uint64_t sink;

constexpr double nanoseconds_of_hop = 1e9 / 50'000;

std::uint64_t compute(int steps) {
  std::uint64_t hash = sink;
  for (int i = 0; i < steps; ++i) hash = hash * 31 + 7;
  return hash;
}

[[gnu::noinline]] std::uint64_t work(int depth) {
  if (depth > 0) {
    sink = work(depth - 1);  // the store keeps the call
    return sink * 3;
  }
  return compute(20'000);
}

void run(long count, int depth) {
  for (long i = 0; i < count; ++i) sink = work(depth);
}

struct Pipe {
  int ends[2];
  Pipe() {
    if (pipe(ends) != 0) std::abort();
  }
  void put() {
    if (write(ends[1], "", 1) != 1) std::abort();
  }
  void get() {
    char byte;
    if (read(ends[0], &byte, 1) != 1) std::abort();
  }
};

/// `steps`: how much each thread works for in between.
void switch_to_and_fro(long count, int steps) {
  static Pipe there, back;
  static std::atomic<int> others_steps;
  others_steps = steps;
  static std::thread other([] {
    const labels::Scope scope(labels::Key("tenant"), "globex");
    for (;;) {
      there.get();
      sink = compute(others_steps);
      back.put();
    }
  });
  for (long i = 0; i < count; ++i) {
    there.put();
    sink = compute(steps);
    back.get();
  }
}

double nanoseconds_of(auto&& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  return took.count();
}

int steps_of_hop() {
  static const int measured = [] {
    constexpr int tries = 20'000, steps = 20'000'000;
    const double alone = nanoseconds_of([] { switch_to_and_fro(tries, 0); }) / (2 * tries);
    const double step = nanoseconds_of([] { sink = compute(steps); }) / steps;
    return static_cast<int>(std::max(nanoseconds_of_hop - alone, 0.0) / step);
  }();
  return measured;
}

}  // namespace

int main() {
  const labels::Scope scope({{labels::Key("tenant"), "acme"}, {labels::Key("route"), "/pay"}});
  std::puts("ready");
  std::fflush(stdout);
  char what[16];
  long count = 0;
  while (std::scanf("%15s %ld", what, &count) == 2) {
    const int steps = *what == 'h' ? steps_of_hop() : 0;
    const double took = nanoseconds_of([&] {
      if (*what == 's' || *what == 'h')
        switch_to_and_fro(count, steps);
      else
        run(count, *what == 'r' ? 10 : 18);
    });
    std::printf("%.1f\n", took / static_cast<double>(count));
    std::fflush(stdout);
  }
  std::_Exit(0);
}
