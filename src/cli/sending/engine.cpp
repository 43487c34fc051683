#include "cli/sending/engine.hpp"

#include <fmt/format.h>

#include <limits>

#include "base/limits.hpp"
#include "cli/output/text.hpp"
#include "cli/shell/report.hpp"
#include "export/endpoint.hpp"
#include "export/environment.hpp"

namespace vitrine::cli {
namespace {

/// Of a request, and of a spool, which would have room for none.
constexpr std::size_t min_export_bytes = 64 * 1024;

std::string_view one_of(exporter::Signal signal) {
  std::string_view items = exporter::names_of(signal).items;
  items.remove_suffix(1);
  return items;
}

}  // namespace

void EngineOptions::define(CLI::App& app, std::string_view what, std::string_view engines) {
  app.add_option("--export", options_.url,
                 fmt::format("Send {} to this collector{}: otlp+http://HOST:4318, "
                             "otlp+https://HOST, otlp+grpc://HOST:4317, otlp+grpcs://HOST{}{}; "
                             "otlp: the endpoint in OTEL_EXPORTER_OTLP_ENDPOINT",
                             what, engines.empty() ? "" : " or engine", engines.empty() ? "" : ", ",
                             engines))
      ->option_text("URL");
  app.add_option("--export-header", options_.headers,
                 "Send this header, too; may be repeated. For secrets: OTEL_EXPORTER_OTLP_HEADERS")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->option_text("'NAME: VALUE'");
  app.add_option("--export-bytes", request_bytes_,
                 "Maximum size of a request before compression (1MiB, at least 64KiB)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(min_export_bytes, limits::export_request))
      ->option_text("SIZE");
  const auto file = [&](const char* name, std::string& into, const char* help) {
    app.add_option(name, into, help)->option_text("FILE");
  };
  file("--export-ca", options_.authorities,
       "Trust these authorities, in PEM (the system's; or OTEL_EXPORTER_OTLP_CERTIFICATE)");
  file("--export-certificate", options_.certificate,
       "Show this client certificate, in PEM (or OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE)");
  file("--export-key", options_.key,
       "Key of the client certificate, in PEM (or OTEL_EXPORTER_OTLP_CLIENT_KEY)");
  app.add_option("--spool", options_.spool,
                 fmt::format("Keep unsent {} in this directory, also for the next start", what))
      ->option_text("DIR");
  app.add_option(
         "--spool-bytes", options_.spool_bytes,
         fmt::format("Limit of the spool, at least 64KiB; the oldest {} are dropped (256MiB; in "
                     "memory 64MiB)",
                     what))
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(min_export_bytes, std::numeric_limits<std::size_t>::max()))
      ->option_text("SIZE");
}

Result<void> EngineOptions::check(bool more, const std::string& other) const {
  const bool anything = more || !options_.headers.empty() || request_bytes_ != 0 ||
                        !options_.spool.empty() || options_.spool_bytes != 0 ||
                        !options_.authorities.empty() || !options_.certificate.empty() ||
                        !options_.key.empty();
  const bool has_files =
      !options_.authorities.empty() || !options_.certificate.empty() || !options_.key.empty();
  const bool may_use_files =
      !exporter::lacks_tls(options_.url) && !(options_.url.empty() && !other.empty());
  const bool other_may = !other.empty() && !exporter::lacks_tls(other);
  if (has_files && !may_use_files && !other_may)
    return fail(
        ErrorCode::usage,
        other.empty()
            ? "--export-ca, --export-certificate and --export-key are for TLS, which the URL "
              "of --export lacks"
            : "--export-ca, --export-certificate and --export-key are for TLS, which the URLs "
              "of --export and --export-signals lack",
        "give otlp+https://HOST or otlp+grpcs://HOST");
  if (given() || !other.empty() || !anything) return {};
  return fail(ErrorCode::usage, "--export-* and --spool require --export",
              "add --export otlp+http://HOST:4318");
}

Result<exporter::ExportOptions> EngineOptions::take(exporter::Signal signal,
                                                    const std::string& url) const {
  exporter::ExportOptions options = options_;
  if (!url.empty()) options.url = url;
  options.signal = signal;
  return exporter::with_environment(std::move(options), environment_);
}

bool report_sent(const exporter::ExportCounters& counters, const std::string& spool,
                 exporter::Signal signal) {
  const bool stays = !spool.empty();
  std::string text = fmt::format("{}: sent {}", exporter::names_of(signal).name,
                                 counted(counters.sent, "request"));
  const auto add = [&](std::uint64_t count, const char* what) {
    if (count != 0) text += fmt::format(", {} {}", count, what);
  };
  const std::uint64_t lost = stays ? counters.unwritten : counters.waiting;
  if (counters.waiting > lost)
    text += fmt::format(", {} kept in {} for the next start", counters.waiting - lost, spool);
  add(lost, "not accepted in time and lost");
  add(counters.refused, "rejected and dropped");
  add(counters.overflowed, "dropped because the spool was full");
  add(counters.skipped, "foreign files left in the spool");
  if (counters.rejected != 0)
    text += "; the collector rejected " + counted(counters.rejected, one_of(signal));
  print_error("vitrine: {}\n", printable(text));
  return counters.refused + counters.overflowed + counters.rejected == 0 && lost == 0;
}

}  // namespace vitrine::cli
