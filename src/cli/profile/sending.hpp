// --export and what belongs to it: profiles to a collector, or to another engine.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "export/exporter.hpp"
#include "profile/encode.hpp"

namespace vitrine::cli {

/// Encodes profiles as the engine takes them, and sends them.
class ProfileSender {
 public:
  using Encode = std::function<profile::Requests(const profile::Profile&)>;

  ProfileSender(std::unique_ptr<exporter::Exporter> exporter, Encode encode, std::string spool)
      : exporter_(std::move(exporter)), encode_(std::move(encode)), spool_(std::move(spool)) {}

  /// Hands `profile` over.
  void send(const profile::Profile& profile);

  /// Prints what the exporter has to say.
  void print_notes();

  /// Waits for what is still to be sent, for a while, ends the sending, and reports what became of
  /// all. False: some of it is lost.
  bool finish();

 private:
  std::unique_ptr<exporter::Exporter> exporter_;
  Encode encode_;
  std::string spool_;  ///< empty: in memory
};

/// What the options of the command line say.
class SendingOptions {
 public:
  void define(CLI::App& app);
  [[nodiscard]] bool given() const { return !options_.url.empty(); }
  /// With OpenTelemetry's environment variables. Errors: usage, and those of exporter::Exporter.
  [[nodiscard]] Result<std::unique_ptr<ProfileSender>> open(profile::EncodeOptions encoding) const;
  /// What was given makes sense without --export. Errors: usage.
  [[nodiscard]] Result<void> check() const;

 private:
  exporter::ExportOptions options_;
  std::vector<std::string> attributes_;
  profile::RequestLimits limits_;
  bool has_limits_ = false;
};

}  // namespace vitrine::cli
