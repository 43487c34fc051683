// Trouble: which failures of sending are reported.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace vitrine::exporter {

/// Failures are reported when they begin, change and end, not at every try; a failure that comes and
/// goes, once a minute. What is left out is counted.
class Trouble {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::minutes between{1};
  /// Failures reported in that time, where each differs from the others.
  static constexpr std::size_t most = 8;

  /// A try ended with `text`; empty: nothing was wrong. Whether to report it.
  bool add(std::string_view text, Time now);
  /// Failures left out, a minute after the first of them, or `at_once`. They count once.
  std::uint64_t take_left_out(Time now, bool at_once);

 private:
  std::string current_;  ///< without its measures
  bool is_reported_ = false;
  std::map<std::string, Time, std::less<>> recent_;
  std::uint64_t left_out_ = 0;
  Time left_out_since_;
};

}  // namespace vitrine::exporter
