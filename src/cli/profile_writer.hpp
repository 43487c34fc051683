// Writes and sends profiles beside the sampling of the next one.
#pragma once

#include <future>
#include <string>
#include <vector>

#include "cli/profile_outputs.hpp"
#include "send/exporter.hpp"

namespace vitrine::cli {

class ProfileWriter {
 public:
  /// Outputs' paths are patterns (path_at). `exporter` may be null.
  ProfileWriter(std::vector<ProfileOutput> outputs, profile::EncodeOptions options,
                send::Exporter* exporter)
      : outputs_(std::move(outputs)), options_(std::move(options)), exporter_(exporter) {}

  /// Begins with a profile. Must not be busy.
  void begin(profile::Profile profile);
  [[nodiscard]] bool busy() const;

  /// Waits until it is no more, and tells what went wrong. False: something did, now or before.
  bool wait();

 private:
  [[nodiscard]] std::vector<Error> write(const profile::Profile& profile) const;

  std::vector<ProfileOutput> outputs_;
  profile::EncodeOptions options_;
  send::Exporter* exporter_;
  std::future<std::vector<Error>> errors_;
  bool failed_ = false;
};

}  // namespace vitrine::cli
