// The clocks of the kernel, in nanoseconds.
#pragma once

#include <cstdint>
#include <ctime>

namespace vitrine::observe {

inline std::uint64_t now_ns(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace vitrine::observe
