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

/// The attributes that an engine can use: Pyroscope and Parca make a series of each set of them, so
/// that threads, CPUs and process IDs would multiply what one service has.
std::vector<std::string> attributes_for(exporter::Engine engine) {
  if (engine == exporter::Engine::otlp || engine == exporter::Engine::clickhouse) return {};
  return {"!thread.*", "!cpu.*", "!process.pid"};
}

}  // namespace

void SendingOptions::define(CLI::App& app) {
  engine_.define(
      app, "profiles",
      "pyroscope+http://HOST:4040, parca+grpc://HOST:7070, clickhouse+http://HOST:8123/TABLE");
  app.add_option(
         "--export-attributes", attributes_,
         "Send only attributes with these keys, or with ! without them. trace_id and span_id "
         "add them to the samples (all; pyroscope, parca: !thread.*,!cpu.*,!process.pid)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->option_text("GLOB,...");
}

Result<exporter::ExportOptions> SendingOptions::take_engine() const {
  auto options = TRY(engine_.take(exporter::Signal::profiles));
  if (exporter::engine_of(options.url) == exporter::Engine::clickhouse && !attributes_.empty())
    return fail(ErrorCode::usage, "--export-attributes is for OTLP: ClickHouse takes all",
                "leave columns out of the table");
  return options;
}

Result<void> SendingOptions::check_engine() const {
  return exporter::Exporter::check(TRY(take_engine()));
}

Result<std::unique_ptr<ProfileSender>> SendingOptions::open(profile::EncodeOptions encoding,
                                                            Spooling spooling) const {
  auto options = TRY(take_engine());
  profile::RequestLimits limits;
  if (engine_.request_bytes() != 0) limits.bytes = engine_.request_bytes();
  if (spooling == Spooling::off) options.spool.clear();
  const auto engine = exporter::engine_of(options.url);
  ProfileSender::Encode encode;
  if (engine == exporter::Engine::clickhouse) {
    options.split = [](std::string_view request) {
      return profile::split_json_flat_request(request).bodies;
    };
    encode = [limits](const profile::Profile& profile) {
      return profile::encode_json_flat_requests(profile, limits);
    };
  } else {
    encoding.attributes =
        profile::AttributeChoice(attributes_.empty() ? attributes_for(engine) : attributes_);
    encoding.off_cpu_period = engine == exporter::Engine::parca;
    // It takes the processes of a request one after the other, and ends at the first that it refuses.
    limits.one_process = engine == exporter::Engine::pyroscope;
    options.split = [encoding](std::string_view request) {
      auto parts = profile::split_otlp_request(request, encoding);
      return parts && parts->too_large == 0 ? std::move(parts->bodies) : std::vector<std::string>();
    };
    encode = [encoding = std::move(encoding), limits](const profile::Profile& profile) {
      return profile::encode_otlp_requests(profile, encoding, limits);
    };
  }
  options.begin_thread = give_up_in_thread;
  auto exporter = TRY(exporter::Exporter::open(std::move(options)));
  return std::make_unique<ProfileSender>(std::move(exporter), std::move(encode), engine_.spool());
}

Result<exporter::ExportOptions> SendingOptions::take(const std::string& url,
                                                     exporter::Signal signal,
                                                     Spooling spooling) const {
  auto options = TRY(engine_.take(signal, url));
  if (spooling == Spooling::off) options.spool.clear();
  while (options.spool.size() > 1 && options.spool.ends_with('/')) options.spool.pop_back();
  if (!options.spool.empty()) options.spool += fmt::format("-{}", exporter::names_of(signal).name);
  return options;
}

void print_notes(ProfileSender& sender) {
  for (const std::string& text : sender.take_notes()) note(text);
}

bool finish(ProfileSender& sender) {
  sender.finish();
  print_notes(sender);
  return report_sent(sender.counters(), sender.spool(), exporter::Signal::profiles);
}

}  // namespace vitrine::cli
