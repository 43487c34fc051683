// How long to wait before the next try.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>

namespace vitrine::send {

/// A collector that answers Retry-After with more is asked again after this: a slip there must not
/// silence a fleet for days.
inline constexpr std::chrono::minutes longest_retry_after{10};

/// Doubles from `first` up to `last`; half of each wait is chance, so that the senders of a fleet do
/// not come back all at once.
class Backoff {
 public:
  Backoff(std::chrono::milliseconds first, std::chrono::milliseconds last, std::uint64_t seed)
      : first_(first), last_(last), chance_(seed) {}

  /// After a failed try. What the collector asked for is waited for at least.
  std::chrono::milliseconds next(std::optional<std::chrono::seconds> asked);
  /// After one that did not fail.
  void reset() { wait_ = std::chrono::milliseconds(0); }

 private:
  std::chrono::milliseconds some_of(std::chrono::milliseconds most);

  std::chrono::milliseconds first_, last_;
  std::chrono::milliseconds wait_{0};
  std::mt19937_64 chance_;
};

}  // namespace vitrine::send
