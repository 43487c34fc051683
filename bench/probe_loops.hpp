// Loops with a probe in each turn, one set for each header: both cannot be in one file.
#pragma once

#include <cstdint>
#include <string_view>

namespace bench {

inline constexpr int turns = 1000;

struct Values {
  std::uint64_t a;
  std::uint32_t b;
  std::int64_t c;
  const char* d;
  double e;
  std::string_view text;
};

/// Turns a number over; what is known of `values` is in registers.
using Loop = std::uint64_t (*)(std::uint64_t x, const Values& values);

/// By number of arguments, 0 to 5; `costly`: one argument that takes time to compute.
struct Loops {
  const char* name;
  Loop plain[6];
  Loop guarded[6];  ///< by a semaphore
  Loop plain_costly, guarded_costly;
  Loop typed;   ///< with names, types, and a text; null: the header has none
  Loop traced;  ///< the probe `bench:traced`, two arguments
};
extern const Loops vitrine_loops, systemtap_loops;

/// As little as a turn can be, so that nothing hides the probe: about a cycle.
inline std::uint64_t step(std::uint64_t x) {
  x += 1442695040888963407U;
  asm volatile("" : "+r"(x));  // turn by turn, not all at once
  return x;
}

/// A hash over 38 characters: what a costly argument may be.
inline std::uint64_t costly(std::uint64_t x) {
  for (const char c : std::string_view("a key of a cache, as long as keys are."))
    x = x * 31 + static_cast<std::uint64_t>(c);
  return x;
}

#define BENCH_LOOP(name, probe)                                      \
  std::uint64_t name(std::uint64_t x, const bench::Values& values) { \
    [[maybe_unused]] const auto [a, b, c, d, e, text] = values;      \
    for (int turn = 0; turn < bench::turns; ++turn) {                \
      probe;                                                         \
      x = bench::step(x);                                            \
    }                                                                \
    return x;                                                        \
  }

}  // namespace bench
