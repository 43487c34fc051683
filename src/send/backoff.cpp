#include "send/backoff.hpp"

#include <algorithm>

namespace vitrine::send {

std::chrono::milliseconds Backoff::some_of(std::chrono::milliseconds most) {
  return std::chrono::milliseconds(std::uniform_int_distribution<std::int64_t>(
      0, std::max<std::int64_t>(most.count(), 0))(chance_));
}

std::chrono::milliseconds Backoff::next(std::optional<std::chrono::seconds> asked) {
  wait_ = std::clamp(wait_ * 2, first_, std::max(first_, last_));
  if (asked)
    return std::clamp<std::chrono::milliseconds>(*asked, std::chrono::milliseconds(0),
                                                 longest_retry_after) +
           some_of(first_);
  return wait_ / 2 + some_of(wait_ / 2);
}

}  // namespace vitrine::send
