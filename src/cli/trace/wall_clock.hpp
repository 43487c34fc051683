// The time of day of events, whose own clock is CLOCK_MONOTONIC.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "base/clock.hpp"

namespace vitrine::cli {

/// The clock may be set while events come, and the time that a machine sleeps is not in theirs: it is looked at again
/// and again.
class WallClock {
 public:
  /// What to add to the clock of events for the time since 1970.
  [[nodiscard]] std::int64_t offset_ns() const { return offset_ns_; }

  void look() {
    constexpr std::int64_t min_step_ns = 1'000'000;  // above what reading two clocks takes
    const std::int64_t now = wall_clock_offset_ns();
    if (std::abs(now - offset_ns_) > min_step_ns) offset_ns_ = now;
  }

  /// The same for an event of this time, after a look where the last is a second of events ago.
  [[nodiscard]] std::int64_t offset_at(std::uint64_t event_ns) {
    constexpr std::uint64_t pause_ns = 1'000'000'000;
    if (event_ns >= next_look_ns_) {
      look();
      next_look_ns_ = event_ns + pause_ns;
    }
    return offset_ns_;
  }

 private:
  std::int64_t offset_ns_ = wall_clock_offset_ns();
  std::uint64_t next_look_ns_ = 0;
};

}  // namespace vitrine::cli
