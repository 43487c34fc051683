// Spin: to wait for another process for so short a time that sleeping would take longer.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>

namespace vitrine::target {

inline void pause_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

/// Spins for less long after it was of no use, as it is on a machine that has much to do, and for
/// longer after it was. Async-signal-safe.
class Spin {
 public:
  using Time = std::chrono::nanoseconds;

  /// None where there is but one processor: the other side cannot run meanwhile.
  explicit Spin(Time longest) : longest_(several_processors() ? longest : Time(0)) {}

  /// Whether `done` became true meanwhile.
  template <class Done>
  bool until(Done done) {
    using Clock = std::chrono::steady_clock;
    constexpr int looks = 16;  // between two at the clock
    if (done()) return true;
    for (const auto end = Clock::now() + time_; Clock::now() < end;) {
      for (int i = 0; i < looks; ++i) {
        if (done()) {
          time_ = std::min(longest_, time_ * 2);
          return true;
        }
        pause_processor();
      }
    }
    time_ = std::max(longest_ / 8, time_ / 2);
    return false;
  }

 private:
  static bool several_processors() {
    cpu_set_t set;
    return ::sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) > 1;
  }

  Time longest_;
  Time time_ = longest_;
};

}  // namespace vitrine::target
