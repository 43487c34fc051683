// Continuous profiling: one profile after another, each named, written and sent while the next one
// is sampled. `vitrine profile --continuous` and `vitrine agent` are this.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "agent/files.hpp"
#include "agent/sender.hpp"
#include "base/result.hpp"
#include "observe/profile/profiling.hpp"
#include "profile/encode.hpp"

namespace vitrine::agent {

using Clock = std::chrono::steady_clock;

/// Longest time between two looks at the samples; and at those of a profile that is always on, which is to cost nothing
/// where nothing happens.
inline constexpr std::chrono::milliseconds poll_time{100}, continuous_poll_time{250};

/// What became of profiles so far.
struct ProfileCounts {
  std::uint64_t profiles = 0;   ///< with samples
  std::uint64_t samples = 0;    ///< in them
  std::uint64_t lost = 0;       ///< samples that the kernel or we had no room for
  std::uint64_t unnamed = 0;    ///< locations that were not named in time
  std::uint64_t unwritten = 0;  ///< files that could not be written
};

inline ProfileCounts& operator+=(ProfileCounts& sum, const ProfileCounts& more) {
  sum.profiles += more.profiles;
  sum.samples += more.samples;
  sum.lost += more.lost;
  sum.unnamed += more.unnamed;
  sum.unwritten += more.unwritten;
  return sum;
}

// Writes and sends profiles beside the sampling of the next one.

class ProfileWriter {
 public:
  /// Outputs' paths are patterns (path_at). `sender` may be null.
  ProfileWriter(std::vector<ProfileOutput> outputs, profile::EncodeOptions options,
                ProfileSender* sender)
      : outputs_(std::move(outputs)), options_(std::move(options)), sender_(sender) {}

  /// Begins with a profile, which `take` names. Must not be busy.
  void begin(std::function<profile::Profile()> take);
  [[nodiscard]] bool busy() const;

  /// Waits until it is no more. Returns what went wrong: also that there was no memory for it, which
  /// is no reason not to go on with the next one.
  std::vector<Error> wait();

  /// Whether standard output, where it is an output, still has one.
  [[nodiscard]] bool has_reader() const { return has_reader_; }

  /// Of all profiles that it has finished.
  [[nodiscard]] const ProfileCounts& counts() const { return counts_; }

 private:
  struct Outcome {
    std::vector<Error> errors;
    ProfileCounts counts;
  };
  [[nodiscard]] Outcome write(const profile::Profile& profile);

  std::vector<ProfileOutput> outputs_;
  profile::EncodeOptions options_;
  ProfileSender* sender_;
  std::future<Outcome> outcome_;
  ProfileCounts counts_;
  std::atomic<bool> has_reader_{true};
};

/// Samples until `until`, `end`, or the end of all: returns whether one of the latter two came.
/// `is_over` is asked at each look, at least every `pause`.
Result<bool> sample_until(observe::Profiling& profiling, std::optional<Clock::time_point> end,
                          std::optional<Clock::time_point> until,
                          const std::function<bool()>& is_over,
                          std::chrono::milliseconds pause = poll_time);

struct ContinuousOptions {
  std::chrono::milliseconds every{10'000};          ///< a profile
  std::optional<std::chrono::milliseconds> naming;  ///< nothing: a part of the interval
  std::optional<Clock::time_point> end;
  /// What is written and sent of a profile. In the thread of the writer.
  std::function<profile::Profile(profile::Profile)> select;
};

/// Functions of the caller.
class ContinuousListener {
 public:
  virtual ~ContinuousListener() = default;
  /// At each look: whether to stop. `waiting`: samples of the profile that grows.
  virtual bool is_over(std::size_t waiting) = 0;
  /// A profile is finished, or the last one begun: `notes` and `errors` came since the last call.
  virtual void report(const std::vector<std::string>& notes, const std::vector<Error>& errors) = 0;
};

/// Goes on to the end of what was asked for. The last profile is with `writer` then, which is busy.
/// Errors: those of sampling.
Result<void> profile_continuously(observe::Profiling& profiling, ProfileWriter& writer,
                                  const ContinuousOptions& options, ContinuousListener& listener);

}  // namespace vitrine::agent
