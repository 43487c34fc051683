// --export and what belongs to it: profiles to an OpenTelemetry Collector.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "profile/encode.hpp"
#include "send/exporter.hpp"

namespace vitrine::cli {

/// What the options of the command line say.
class ExportOptions {
 public:
  void define(CLI::App& app);
  [[nodiscard]] bool given() const { return !options_.url.empty(); }
  /// With OpenTelemetry's environment variables. Errors: usage, and those of send::Exporter.
  [[nodiscard]] Result<std::unique_ptr<send::Exporter>> open() const;
  /// What was given makes sense without --export. Errors: usage.
  [[nodiscard]] Result<void> check() const;
  /// Where what could not be sent stays; empty: in memory.
  [[nodiscard]] const std::string& spool() const { return options_.spool; }

 private:
  send::ExportOptions options_;
};

/// Hands `profile` over, as requests of the size that collectors take by default.
void send_profile(send::Exporter& exporter, const profile::Profile& profile,
                  const profile::EncodeOptions& options);

/// Tells the exporter's notes.
void tell(send::Exporter& exporter);

/// Waits for what is still to be sent, for a while, and tells what became of all. False: some of it is
/// lost.
bool finish(send::Exporter& exporter, std::string_view spool);

}  // namespace vitrine::cli
