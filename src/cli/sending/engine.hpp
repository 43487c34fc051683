// --export, and what belongs to it whatever is sent: the engine, headers, sizes and the spool.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.hpp"
#include "export/environment.hpp"
#include "export/exporter.hpp"

namespace vitrine::cli {

class EngineOptions {
 public:
  /// `what`: is sent; `engines`: URLs of those beside OTLP, with a comma behind each.
  void define(CLI::App& app, std::string_view what, std::string_view engines);
  [[nodiscard]] bool given() const { return !options_.url.empty(); }
  /// Variables of OpenTelemetry are read there; without it, in this process's environment.
  void set_environment(exporter::Environment environment) { environment_ = std::move(environment); }
  /// What was given makes sense without --export; `more`: so was another option of it. `other`: another URL that
  /// all of it is for, too; empty: none. Errors: usage.
  [[nodiscard]] Result<void> check(bool more, const std::string& other = {}) const;

  /// With OpenTelemetry's environment variables for `signal`. `url`: in place of that of --export; empty:
  /// that. Errors: usage.
  [[nodiscard]] Result<exporter::ExportOptions> take(exporter::Signal signal,
                                                     const std::string& url = {}) const;
  [[nodiscard]] const std::string& url() const { return options_.url; }
  [[nodiscard]] const std::string& spool() const { return options_.spool; }
  /// Of one request, before compression; 0: not given.
  [[nodiscard]] std::size_t request_bytes() const { return request_bytes_; }

 private:
  exporter::ExportOptions options_;
  exporter::Environment environment_ = exporter::own_environment();
  std::size_t request_bytes_ = 0;
};

/// Prints what became of all that was sent, of which no more is. False: some of it is lost.
bool report_sent(const exporter::ExportCounters& counters, const std::string& spool,
                 exporter::Signal signal);

}  // namespace vitrine::cli
