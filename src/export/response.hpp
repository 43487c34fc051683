// What a collector responded, and when to try again.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>

namespace vitrine::send {

// What a collector's answer says about a request.

/// What came of one try.
struct Answer {
  long status = 0;       ///< of HTTP; 0: none came
  std::string problem;   ///< what went wrong on the way; with a status: after it had come
  std::string type;      ///< Content-Type
  std::string body;      ///< its first limits::export_answer bytes
  std::string redirect;  ///< URL that a 3xx leads to
  std::optional<std::chrono::seconds> retry_after;
};

enum class Verdict : std::uint8_t {
  taken,    ///< whole or in part; must never be sent again
  later,    ///< to be tried again
  refused,  ///< never will be taken
};

struct Judgement {
  Verdict verdict = Verdict::later;
  std::uint64_t rejected = 0;  ///< profiles that were left out of a request that was taken
  std::string note;            ///< what the user should know; empty: nothing. Any bytes
};

/// By the rules of OTLP over HTTP: the status alone tells whether a request was taken; 429, 502, 503
/// and 504, and no status at all, are worth another try.
Judgement judge(const Answer& answer);

// How long to wait before the next try.

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
