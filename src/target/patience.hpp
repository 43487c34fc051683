// Patience: for how long one may wait for memory that does not come, and how often.
#pragma once

#include <algorithm>
#include <chrono>

namespace vitrine::target {

/// An allowance of time. What is used of it comes back slowly, so that who goes on for hours waits
/// for a small part of them.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;
  using Duration = Clock::duration;

  explicit Patience(Duration allowance) : allowance_(allowance), left_(allowance) {}

  /// What is left. Below zero: as much was spent that none should have been.
  Duration left(Clock::time_point now = Clock::now()) {
    constexpr int one_part_in = 10;
    left_ = std::min(allowance_, left_ + (now - seen_) / one_part_in);
    seen_ = now;
    return left_;
  }

  void spend(Duration time) { left_ = std::max(left_ - time, -allowance_); }

  /// As much as there was at first was spent again beyond it.
  bool exhausted() { return left() <= -allowance_ + Duration(std::chrono::milliseconds(1)); }

 private:
  Duration allowance_;
  Duration left_;
  Clock::time_point seen_ = Clock::now();
};

}  // namespace vitrine::target
