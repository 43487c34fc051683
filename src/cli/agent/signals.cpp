#include "cli/agent/signals.hpp"

#include <algorithm>
#include <future>
#include <iterator>
#include <utility>

#include "base/limits.hpp"
#include "cli/output/text.hpp"
#include "cli/shell/options.hpp"
#include "cli/shell/report.hpp"
#include "export/endpoint.hpp"
#include "observe/process/facts.hpp"
#include "sandbox/files.hpp"

namespace vitrine::cli {
namespace {

constexpr const char* usual_metrics_interval = "15s";  // as Prometheus looks
constexpr std::size_t usual_label_values = 100;

}  // namespace

void MetricsOptions::define(CLI::App& app) {
  app.add_option("--metrics-by", by,
                 "Add up CPU time and time off the CPU by these keys, as metrics")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->option_text("KEY,...");
  app.add_option("--metrics-label-values", label_values,
                 "Number of values of each key that have series of their own; the rest is "
                 "__other__ (100)")
      ->check(CLI::Range(std::size_t{1}, limits::metric_groups))
      ->option_text("N");
  app.add_option("--metrics-interval", interval_,
                 "Write the text file and send metrics after each INTERVAL (15s)")
      ->option_text("INTERVAL");
  app.add_option("--textfile", textfile,
                 "Keep metrics in this file, for Prometheus' node exporter (FILE.prom) or as "
                 "OpenMetrics (FILE.openmetrics)")
      ->option_text("FILE");
  app.add_flag("--no-push", no_push_, "Do not send metrics by OTLP");
  app.add_option("--export-signals", url_,
                 "Send metrics, spans and log records to this URL of OTLP (that of --export, if it "
                 "is one)")
      ->option_text("URL");
}

Result<void> MetricsOptions::take() {
  pushed = !no_push_;
  if (label_values == 0) label_values = usual_label_values;
  interval = TRY_WHILE("--metrics-interval",
                       parse_interval(interval_.empty() ? usual_metrics_interval : interval_));
  if (!textfile.empty() && !telemetry::is_text_file(textfile))
    return fail(ErrorCode::usage, "--textfile: unknown format of " + textfile,
                "end its name in .prom or .openmetrics");
  for (std::size_t i = 1; i < by.size(); ++i)
    if (std::find(by.begin(), by.begin() + static_cast<std::ptrdiff_t>(i), by[i]) !=
        by.begin() + static_cast<std::ptrdiff_t>(i))
      return fail(ErrorCode::usage, "--metrics-by: " + by[i] + " is given twice",
                  "give each key once");
  if (!url_.empty() && exporter::engine_of(url_) != exporter::Engine::otlp)
    return fail(ErrorCode::usage,
                "--export-signals: only OTLP carries metrics, spans and log records",
                "set otlp+http://HOST:4318 or otlp+grpc://HOST:4317");
  return {};
}

std::string MetricsOptions::engine(const std::string& profiles) const {
  if (!url_.empty()) return url_;
  const bool is_otlp = !profiles.empty() && exporter::engine_of(profiles) == exporter::Engine::otlp;
  return is_otlp ? profiles : std::string();
}

AgentSignals::AgentSignals(MetricsOptions options, const std::vector<TraceTable>& tables)
    : options_(std::move(options)),
      resource_(observe::encoded_resource(0)),
      totals_(options_.by, options_.label_values, limits::metric_groups) {
  sends_metrics_ = !options_.by.empty();
  for (const TraceTable& table : tables) {
    sends_metrics_ = sends_metrics_ || table.signal() == exporter::Signal::metrics;
    sends_spans_ = sends_spans_ || table.signal() == exporter::Signal::traces;
    sends_logs_ = sends_logs_ || table.signal() == exporter::Signal::logs;
  }
  sends_metrics_ = sends_metrics_ && options_.pushed;
}

Result<std::unique_ptr<AgentSignals>> AgentSignals::open(const MetricsOptions& options,
                                                         const std::vector<TraceTable>& tables,
                                                         const AgentSignals* before) {
  std::unique_ptr<AgentSignals> signals(new AgentSignals(options, tables));
  signals->traces_ =
      TRY(AgentTraces::open(tables, before == nullptr ? nullptr : before->traces_.get()));
  return signals;
}

Result<void> AgentSignals::open_senders(const SendingOptions& sending,
                                        SendingOptions::Spooling spooling) {
  const std::string url = options_.engine(sending.url());
  if (url.empty()) return {};
  std::unique_ptr<TraceSender> metrics, spans, logs;
  const auto open = [&](bool wanted, exporter::Signal signal,
                        std::unique_ptr<TraceSender>& into) -> Result<void> {
    if (!wanted) return {};
    into =
        TRY(TraceSender::open(TRY(sending.take(url, signal, spooling)), sending.request_bytes()));
    return {};
  };
  TRY(open(sends_metrics_, exporter::Signal::metrics, metrics));
  TRY(open(sends_spans_, exporter::Signal::traces, spans));
  TRY(open(sends_logs_, exporter::Signal::logs, logs));
  if (spooling == SendingOptions::Spooling::off) return {};
  metrics_sender_ = std::move(metrics);
  event_senders_ = {std::move(spans), std::move(logs)};
  for (TraceSender* one :
       {metrics_sender_.get(), event_senders_.spans.get(), event_senders_.logs.get()})
    if (one != nullptr) senders_.push_back(one);
  return {};
}

void AgentSignals::begin(sandbox::Capabilities held_back) {
  traces_->begin(std::move(event_senders_), held_back);
}

void AgentSignals::add(const profile::Profile& profile) {
  if (options_.by.empty()) return;
  const std::lock_guard lock(mutex_);
  totals_.add(profile);
}

std::vector<telemetry::Metric> AgentSignals::times() {
  if (options_.by.empty()) return {};
  const std::lock_guard lock(mutex_);
  return totals_.metrics();
}

std::vector<telemetry::Metric> AgentSignals::metrics() {
  std::vector<telemetry::Metric> all = times();
  for (TraceMetrics& one : traces_->metrics()) telemetry::merge(all, std::move(one.metrics));
  return all;
}

void AgentSignals::print_notes() {
  if (metrics_sender_) metrics_sender_->print_notes();
}

void AgentSignals::publish(const OwnMetrics& own) {
  next_ = std::chrono::steady_clock::now() + options_.interval;
  if (metrics_sender_) {
    metrics_sender_->add(own.metrics, resource_, own.start_ns);
    metrics_sender_->add(times(), resource_);
    for (const TraceMetrics& one : traces_->metrics())
      metrics_sender_->add(one.metrics, one.resource, one.start_ns);
    metrics_sender_->take_out(true);
  }
  if (options_.textfile.empty()) return;
  const auto written = sandbox::write_whole(options_.textfile,
                                            telemetry::text_of_file(options_.textfile, metrics()));
  // A full disk may have space later.
  if (!written && !write_failed_) note(written.error().message);
  write_failed_ = !written;
}

bool AgentSignals::finish(const OwnMetrics& own, AgentSignals* next) {
  event_senders_ = traces_->end(next == nullptr ? nullptr : next->traces_.get());
  print_notes();
  publish(own);
  std::vector<std::future<bool>> finishing;
  for (TraceSender* sender : senders_)
    finishing.push_back(std::async(std::launch::async | std::launch::deferred,
                                   [sender] { return sender->finish(); }));
  bool is_whole = true;
  for (auto& one : finishing) is_whole = one.get() && is_whole;
  return is_whole;
}

void AgentSignals::close_senders() {
  senders_.clear();
  metrics_sender_.reset();
  event_senders_ = {};
}

exporter::ExportCounters AgentSignals::counters() const {
  exporter::ExportCounters sum;
  for (const TraceSender* sender : senders_) sum += sender->counters();
  return sum;
}

}  // namespace vitrine::cli
