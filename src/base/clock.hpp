// The clocks of the kernel: those of its records and events, and the time of day.
#pragma once

#include <time.h>

#include <cstdint>

namespace vitrine {

/// In nanoseconds. Of a clock that there is; async-signal-safe.
inline std::uint64_t now_ns(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

/// Unix time: since 1970.
inline std::uint64_t unix_time_ns() {
  return now_ns(CLOCK_REALTIME);
}

/// What to add to CLOCK_MONOTONIC, the clock of events, for the time since 1970 (CLOCK_REALTIME), in nanoseconds.
inline std::int64_t wall_clock_offset_ns() {
  constexpr int tries = 4;
  constexpr std::uint64_t close_ns = 20'000;
  std::int64_t offset = 0;
  for (int i = 0; i < tries; ++i) {  // this thread may lose its CPU from one clock to the next
    const std::uint64_t before = now_ns(CLOCK_MONOTONIC);
    const std::uint64_t wall = unix_time_ns();
    const std::uint64_t after = now_ns(CLOCK_MONOTONIC);
    offset = static_cast<std::int64_t>(wall - before - (after - before) / 2);
    if (after - before < close_ns) break;
  }
  return offset;
}

}  // namespace vitrine
