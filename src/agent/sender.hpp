// ProfileSender: encodes profiles as an engine takes them, and sends them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "export/exporter.hpp"
#include "profile/encode.hpp"

namespace vitrine::agent {

class ProfileSender {
 public:
  using Encode = std::function<profile::Requests(const profile::Profile&)>;

  ProfileSender(std::unique_ptr<exporter::Exporter> exporter, Encode encode, std::string spool)
      : exporter_(std::move(exporter)), encode_(std::move(encode)), spool_(std::move(spool)) {}

  /// Hands `profile` over. In any thread.
  void send(const profile::Profile& profile);

  /// What the exporter reports since the last call. Any bytes.
  std::vector<std::string> take_notes();

  /// Waits for what is still to be sent, for a while, and ends the sending: counters() is final
  /// then.
  void finish();

  [[nodiscard]] exporter::ExportCounters counters() const { return exporter_->counters(); }
  /// The directory of unsent requests; empty: they are in memory.
  [[nodiscard]] const std::string& spool() const { return spool_; }

 private:
  std::unique_ptr<exporter::Exporter> exporter_;
  Encode encode_;
  std::string spool_;
  std::mutex mutex_;  // of:
  std::uint64_t too_large_ = 0;
};

}  // namespace vitrine::agent
