// The ways to profile: once, at intervals, or as a table that refreshes; and the writer beside
// them.
#pragma once

#include <future>
#include <string>
#include <vector>

#include "cli/profile/outputs.hpp"
#include "cli/profile/request.hpp"
#include "export/exporter.hpp"
#include "observe/profile/profiling.hpp"

namespace vitrine::cli {

// Writes and sends profiles beside the sampling of the next one.

class ProfileWriter {
 public:
  /// Outputs' paths are patterns (path_at). `exporter` may be null.
  ProfileWriter(std::vector<ProfileOutput> outputs, profile::EncodeOptions options,
                exporter::Exporter* exporter)
      : outputs_(std::move(outputs)), options_(std::move(options)), exporter_(exporter) {}

  /// Begins with a profile. Must not be busy.
  void begin(profile::Profile profile);
  [[nodiscard]] bool busy() const;

  /// Waits until it is no more, and reports what went wrong. False: something did, now or before.
  bool wait();

 private:
  [[nodiscard]] std::vector<Error> write(const profile::Profile& profile) const;

  std::vector<ProfileOutput> outputs_;
  profile::EncodeOptions options_;
  exporter::Exporter* exporter_;
  std::future<std::vector<Error>> errors_;
  bool failed_ = false;
};

// The ways to profile: once, a profile each interval, or a table that refreshes.

// Each goes on to the end of what was asked for, or ^C, and returns an ExitCode. `exporter` may be
// null.
int profile_once(observe::Profiling& profiling, const ProfileRequest& request,
                 exporter::Exporter* exporter);
int profile_continuously(observe::Profiling& profiling, const ProfileRequest& request,
                         exporter::Exporter* exporter);
int profile_watching(observe::Profiling& profiling, const ProfileRequest& request);

}  // namespace vitrine::cli
