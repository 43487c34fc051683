// The ways to profile: once, at intervals, or as a table that refreshes; and the writer beside
// them.
#pragma once

#include <functional>
#include <future>
#include <string>
#include <vector>

#include "cli/profile/outputs.hpp"
#include "cli/profile/request.hpp"
#include "cli/profile/sending.hpp"
#include "observe/profile/profiling.hpp"

namespace vitrine::cli {

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

  /// Waits until it is no more, and reports what went wrong. False: something did, now or before.
  bool wait();

  /// Of all profiles that it has finished.
  [[nodiscard]] const profile::Losses& losses() const { return losses_; }

 private:
  struct Outcome {
    std::vector<Error> errors;
    profile::Losses losses;
  };
  [[nodiscard]] Outcome write(const profile::Profile& profile) const;

  std::vector<ProfileOutput> outputs_;
  profile::EncodeOptions options_;
  ProfileSender* sender_;
  std::future<Outcome> outcome_;
  profile::Losses losses_;
  bool failed_ = false;
};

// The ways to profile: once, a profile each interval, or a table that refreshes.

// Each goes on to the end of what was asked for, or ^C, and returns an ExitCode. `sender` may be
// null.
int profile_once(observe::Profiling& profiling, const ProfileRequest& request,
                 ProfileSender* sender);
int profile_continuously(observe::Profiling& profiling, const ProfileRequest& request,
                         ProfileSender* sender);
int profile_watching(observe::Profiling& profiling, const ProfileRequest& request);

}  // namespace vitrine::cli
