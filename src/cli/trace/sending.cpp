#include "cli/trace/sending.hpp"

#include <fmt/format.h>

#include "base/clock.hpp"
#include "cli/output/text.hpp"
#include "cli/shell/confinement.hpp"
#include "cli/shell/report.hpp"
#include "observe/process/facts.hpp"
#include "observe/trace/records.hpp"

namespace vitrine::cli {
namespace {

constexpr std::chrono::seconds longest_stay{1};          // of fires, until they are handed over
constexpr std::chrono::seconds last_chance_of_trace{5};  // for what is left at the end
constexpr std::size_t usual_request_bytes = std::size_t{1} << 20;

}  // namespace

Result<std::unique_ptr<TraceSender>> TraceSender::open(exporter::ExportOptions sending,
                                                       std::size_t request_bytes) {
  sending.begin_thread = give_up_in_thread;
  sending.split = telemetry::split_request;
  std::string spool = sending.spool;
  const exporter::Signal signal = sending.signal;
  auto exporter = TRY(exporter::Exporter::open(std::move(sending)));
  if (request_bytes == 0) request_bytes = usual_request_bytes;
  return std::unique_ptr<TraceSender>(
      new TraceSender(std::move(exporter), request_bytes, std::move(spool), signal));
}

TraceSender::TraceSender(std::unique_ptr<exporter::Exporter> exporter, std::size_t request_bytes,
                         std::string spool, exporter::Signal signal)
    : exporter_(std::move(exporter)),
      request_bytes_(request_bytes),
      spool_(std::move(spool)),
      signal_(signal),
      requests_(request_bytes),
      start_ns_(unix_time_ns()),
      no_resource_(observe::encoded_resource(0)),
      next_out_(Clock::now() + longest_stay) {}

void TraceSender::add(const observe::TraceEvent& event) {
  requests_.add(event.resource.empty() ? no_resource_ : std::string(event.resource),
                event.start ? telemetry::encode(observe::span_of(event, clock_.offset_ns(), ids_))
                            : telemetry::encode(observe::log_record_of(event, clock_.offset_ns())));
  if (requests_.bytes() >= request_bytes_) take_out(true);
}

void TraceSender::add(const std::vector<telemetry::Metric>& metrics, const std::string& resource,
                      std::uint64_t start_ns) {
  telemetry::add_metrics(metrics, {start_ns == 0 ? start_ns_ : start_ns, unix_time_ns()}, resource,
                         requests_);
}

void TraceSender::send(const std::vector<telemetry::Metric>& metrics, const std::string& resource,
                       std::uint64_t start_ns) {
  add(metrics, resource, start_ns);
  take_out(true);
}

void TraceSender::take_out(bool all) {
  if (!all && Clock::now() < next_out_) return;
  next_out_ = Clock::now() + longest_stay;
  clock_.look();
  for (std::string& request : requests_.take()) exporter_->send(std::move(request));
}

void TraceSender::print_notes() {
  for (const std::string& text : exporter_->take_notes()) note(text);
  const std::uint64_t more =
      requests_.too_large() - std::exchange(too_large_, requests_.too_large());
  if (more != 0)
    note(fmt::format("{} {} too large to send", more, exporter::names_of(signal_).items));
}

bool TraceSender::finish() {
  take_out(true);
  exporter_->finish(last_chance_of_trace);
  exporter_->stop();
  print_notes();
  return report_sent(exporter_->counters(), spool_, signal_) && requests_.too_large() == 0;
}

}  // namespace vitrine::cli
