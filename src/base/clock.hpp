// The clocks of the kernel: those of its records and events, and the time of day.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>

namespace vitrine {

/// In nanoseconds. Of a clock that there is; async-signal-safe. In a time namespace, CLOCK_MONOTONIC and CLOCK_BOOTTIME
/// are those of the namespace: for times of the kernel's records, see kernel_time_ns().
inline std::uint64_t now_ns(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

/// What a time namespace adds to the kernel's clocks (time_namespaces(7)), in nanoseconds.
struct ClockOffsets {
  std::int64_t monotonic_ns = 0;
  std::int64_t boottime_ns = 0;
};

/// Those of the process whose directory in /proc is open as `proc_dir`. Zeros: it is in the initial time namespace, or
/// cannot be examined.
ClockOffsets clock_offsets_of(int proc_dir);

/// Those of this process. For any thread.
const ClockOffsets& own_clock_offsets();

/// CLOCK_MONOTONIC as the kernel's records and events have it, in nanoseconds.
inline std::uint64_t kernel_time_ns() {
  return now_ns(CLOCK_MONOTONIC) - static_cast<std::uint64_t>(own_clock_offsets().monotonic_ns);
}

/// The same of a time of std::chrono::steady_clock, which is CLOCK_MONOTONIC here.
inline std::uint64_t kernel_time_ns(std::chrono::steady_clock::time_point time) {
  const std::chrono::nanoseconds here = time.time_since_epoch();
  return static_cast<std::uint64_t>(here.count() - own_clock_offsets().monotonic_ns);
}

inline std::chrono::steady_clock::time_point steady_time(std::uint64_t kernel_time_ns) {
  const auto here = static_cast<std::int64_t>(kernel_time_ns) + own_clock_offsets().monotonic_ns;
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(here));
}

/// CLOCK_BOOTTIME as the kernel's records have it, in nanoseconds.
inline std::uint64_t kernel_boot_time_ns() {
  return now_ns(CLOCK_BOOTTIME) - static_cast<std::uint64_t>(own_clock_offsets().boottime_ns);
}

/// Unix time: since 1970.
inline std::uint64_t unix_time_ns() {
  return now_ns(CLOCK_REALTIME);
}

/// What to add to kernel_time_ns(), the clock of events, for the time since 1970 (CLOCK_REALTIME), in nanoseconds.
inline std::int64_t wall_clock_offset_ns() {
  constexpr int tries = 4;
  constexpr std::uint64_t close_ns = 20'000;
  std::int64_t offset = 0;
  for (int i = 0; i < tries; ++i) {  // this thread may lose its CPU from one clock to the next
    const std::uint64_t before = kernel_time_ns();
    const std::uint64_t wall = unix_time_ns();
    const std::uint64_t after = kernel_time_ns();
    offset = static_cast<std::int64_t>(wall - before - (after - before) / 2);
    if (after - before < close_ns) break;
  }
  return offset;
}

}  // namespace vitrine
