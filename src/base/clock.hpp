// The clocks of the kernel: those of its records and events.
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

}  // namespace vitrine
