// --export and what belongs to it: profiles to a collector, or to another engine.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/sender.hpp"
#include "base/result.hpp"
#include "cli/sending/engine.hpp"
#include "export/exporter.hpp"
#include "profile/encode.hpp"

namespace vitrine::cli {

using agent::ProfileSender;

/// Prints what the exporter reports.
void print_notes(ProfileSender& sender);

/// Waits for what is still to be sent, for a while, ends the sending, and reports what became of
/// all. False: some of it is lost.
bool finish(ProfileSender& sender);

/// The options of the command line.
class SendingOptions {
 public:
  void define(CLI::App& app);
  [[nodiscard]] bool given() const { return engine_.given(); }
  void set_environment(exporter::Environment environment) {
    engine_.set_environment(std::move(environment));
  }
  /// `off`: without the spool, which another sender holds, to find out whether everything else is valid.
  enum class Spooling : std::uint8_t { on, off };
  /// With OpenTelemetry's environment variables. Errors: usage, and those of exporter::Exporter.
  [[nodiscard]] Result<std::unique_ptr<ProfileSender>> open(profile::EncodeOptions encoding,
                                                            Spooling spooling = Spooling::on) const;
  [[nodiscard]] const std::string& spool() const { return engine_.spool(); }
  [[nodiscard]] const std::string& url() const { return engine_.url(); }
  [[nodiscard]] std::size_t request_bytes() const { return engine_.request_bytes(); }
  /// Of another signal, to another URL; each signal has a spool of its own beside that of profiles:
  /// DIR-metrics, DIR-spans, DIR-logs. Errors: usage.
  [[nodiscard]] Result<exporter::ExportOptions> take(const std::string& url,
                                                     exporter::Signal signal,
                                                     Spooling spooling) const;
  /// Whether what was given is valid without --export. `other`: as EngineOptions::check. Errors: usage.
  [[nodiscard]] Result<void> check(const std::string& other = {}) const {
    return engine_.check(!attributes_.empty(), other);
  }
  /// Whether open() would take what was given, as far as exporter::Exporter::check() knows. Errors: those of open().
  [[nodiscard]] Result<void> check_engine() const;

 private:
  [[nodiscard]] Result<exporter::ExportOptions> take_engine() const;

  EngineOptions engine_;
  std::vector<std::string> attributes_;
};

}  // namespace vitrine::cli
