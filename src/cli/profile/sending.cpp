#include "cli/profile/sending.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/limits.hpp"
#include "cli/output/text.hpp"
#include "cli/shell/confinement.hpp"
#include "cli/shell/report.hpp"
#include "export/endpoint.hpp"
#include "export/environment.hpp"

namespace vitrine::cli {
namespace {

constexpr std::size_t min_request_bytes = 64 * 1024;

/// The attributes that an engine can use: Pyroscope and Parca make a series of each set of them, so
/// that threads, CPUs and process IDs would multiply what one service has.
std::vector<std::string> attributes_for(exporter::Engine engine) {
  if (engine == exporter::Engine::otlp || engine == exporter::Engine::clickhouse) return {};
  return {"!thread.*", "!cpu.*", "!process.pid"};
}

}  // namespace

void SendingOptions::define(CLI::App& app) {
  app.add_option("--export", options_.url,
                 "Send profiles to this collector or engine: otlp+http://HOST:4318, "
                 "otlp+https://HOST, otlp+grpc://HOST:4317, otlp+grpcs://HOST, "
                 "pyroscope+http://HOST:4040, parca+grpc://HOST:7070, "
                 "clickhouse+http://HOST:8123/TABLE; otlp: the endpoint in "
                 "OTEL_EXPORTER_OTLP_ENDPOINT")
      ->option_text("URL");
  app.add_option("--export-header", options_.headers,
                 "Send this header, too; may be repeated. For secrets: OTEL_EXPORTER_OTLP_HEADERS")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->option_text("'NAME: VALUE'");
  app.add_option(
         "--export-attributes", attributes_,
         "Send only attributes with these keys, or with ! without them. trace_id and span_id "
         "add them to the samples (all; pyroscope, parca: !thread.*,!cpu.*,!process.pid)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->option_text("GLOB,...");
  app.add_option("--export-bytes", limits_.bytes,
                 "Maximum size of a request before compression (1MiB, at least 64KiB)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(min_request_bytes, limits::export_request))
      ->each([this](const std::string&) { has_limits_ = true; })
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
                 "Keep unsent profiles in this directory, also for the next start")
      ->option_text("DIR");
  app.add_option("--spool-bytes", options_.spool_bytes,
                 "Limit of the spool; the oldest profiles are dropped (256MiB; in memory 64MiB)")
      ->transform(CLI::AsSizeValue(false))
      ->option_text("SIZE");
}

Result<void> SendingOptions::check() const {
  const bool anything = !options_.headers.empty() || !attributes_.empty() || has_limits_ ||
                        !options_.spool.empty() || options_.spool_bytes != 0 ||
                        !options_.authorities.empty() || !options_.certificate.empty() ||
                        !options_.key.empty();
  if (given() || !anything) return {};
  return fail(ErrorCode::usage, "--export-* and --spool require --export",
              "add --export otlp+http://HOST:4318");
}

Result<std::unique_ptr<ProfileSender>> SendingOptions::open(profile::EncodeOptions encoding,
                                                            Keeping keeping) const {
  auto options = TRY(exporter::with_environment(options_, exporter::own_environment()));
  if (keeping == Keeping::nothing) options.spool.clear();
  const auto engine = exporter::engine_of(options.url);
  ProfileSender::Encode encode;
  if (engine == exporter::Engine::clickhouse) {
    if (!attributes_.empty())
      return fail(ErrorCode::usage, "--export-attributes is for OTLP: ClickHouse takes all",
                  "leave columns out of the table");
    options.split = [](std::string_view request) {
      return profile::split_json_flat_request(request).bodies;
    };
    encode = [limits = limits_](const profile::Profile& profile) {
      return profile::encode_json_flat_requests(profile, limits);
    };
  } else {
    encoding.attributes =
        profile::AttributeChoice(attributes_.empty() ? attributes_for(engine) : attributes_);
    options.split = [encoding](std::string_view request) {
      auto parts = profile::split_otlp_request(request, encoding);
      return parts && parts->too_large == 0 ? std::move(parts->bodies) : std::vector<std::string>();
    };
    encode = [encoding = std::move(encoding), limits = limits_](const profile::Profile& profile) {
      return profile::encode_otlp_requests(profile, encoding, limits);
    };
  }
  options.begin_thread = give_up_in_thread;
  auto exporter = TRY(exporter::Exporter::open(std::move(options)));
  return std::make_unique<ProfileSender>(std::move(exporter), std::move(encode), options_.spool);
}

void print_notes(ProfileSender& sender) {
  for (const std::string& text : sender.take_notes()) note(text);
}

bool finish(ProfileSender& sender) {
  sender.finish();
  print_notes(sender);
  const exporter::ExportCounters counters = sender.counters();
  const bool stays = !sender.spool().empty();
  std::string text = "sent " + counted(counters.sent, "request");
  const auto add = [&](std::uint64_t count, const char* what) {
    if (count != 0) text += fmt::format(", {} {}", count, what);
  };
  const std::uint64_t lost = stays ? counters.unwritten : counters.waiting;
  if (counters.waiting > lost)
    text +=
        fmt::format(", {} kept in {} for the next start", counters.waiting - lost, sender.spool());
  add(lost, "not accepted in time and lost");
  add(counters.refused, "rejected and dropped");
  add(counters.overflowed, "dropped because the spool was full");
  add(counters.skipped, "foreign files left in the spool");
  if (counters.rejected != 0)
    text += fmt::format("; the collector rejected {}", counted(counters.rejected, "profile"));
  print_error("vitrine: {}\n", printable(text));
  return counters.refused + counters.overflowed + counters.rejected == 0 && lost == 0;
}

}  // namespace vitrine::cli
