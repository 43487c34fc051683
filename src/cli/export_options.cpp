#include "cli/export_options.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include "cli/confinement.hpp"
#include "cli/report.hpp"
#include "cli/text.hpp"
#include "send/environment.hpp"

namespace vitrine::cli {
namespace {

constexpr std::size_t most_request_bytes = 4U << 20;  // what gRPC and many proxies take by default
constexpr std::chrono::seconds last_chance{5};        // for what is left at the end

}  // namespace

void ExportOptions::define(CLI::App& app) {
  app.add_option("--export", options_.url,
                 "Send profiles to this collector: otlp+http://HOST:4318, otlp+https://HOST; otlp: "
                 "the endpoint in OTEL_EXPORTER_OTLP_ENDPOINT")
      ->option_text("URL");
  app.add_option("--export-header", options_.headers,
                 "Send this header, too; may be repeated. For secrets: OTEL_EXPORTER_OTLP_HEADERS")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->option_text("'NAME: VALUE'");
  app.add_option("--spool", options_.spool,
                 "Keep unsent profiles in this directory, also for the next start")
      ->option_text("DIR");
  app.add_option("--spool-bytes", options_.spool_bytes,
                 "Limit of the spool; the oldest profiles are dropped (256MiB; in memory 64MiB)")
      ->transform(CLI::AsSizeValue(false))
      ->option_text("SIZE");
}

Result<void> ExportOptions::check() const {
  if (given() || (options_.headers.empty() && options_.spool.empty() && options_.spool_bytes == 0))
    return {};
  return fail(ErrorCode::usage, "--export-header, --spool and --spool-bytes require --export",
              "add --export otlp+http://HOST:4318");
}

Result<std::unique_ptr<send::Exporter>> ExportOptions::open() const {
  auto options = TRY(send::with_environment(options_, send::own_environment()));
  options.begin_thread = give_up_in_thread;
  return send::Exporter::open(std::move(options));
}

void send_profile(send::Exporter& exporter, const profile::Profile& profile,
                  const profile::EncodeOptions& options) {
  auto requests = profile::encode_otlp_requests(profile, options, most_request_bytes);
  for (std::string& body : requests.bodies) exporter.send(std::move(body));
  if (requests.too_large != 0)
    note(fmt::format("{} too large to send", counted(requests.too_large, "sample")));
}

void tell(send::Exporter& exporter) {
  for (const std::string& text : exporter.take_notes()) note(text);
}

bool finish(send::Exporter& exporter, std::string_view spool) {
  exporter.finish(last_chance);
  tell(exporter);
  const send::ExportCounters counters = exporter.counters();
  const bool stays = !spool.empty();
  std::string text = "sent " + counted(counters.sent, "request");
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
    text += fmt::format("; the collector rejected {}", counted(counters.rejected, "profile"));
  fmt::print(stderr, "vitrine: {}\n", printable(text));
  return counters.refused + counters.overflowed + counters.rejected == 0 && lost == 0;
}

}  // namespace vitrine::cli
