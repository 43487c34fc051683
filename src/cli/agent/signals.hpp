// AgentSignals: what an agent reports beside profiles: CPU time by label and what its traces add up,
// as metrics for a page, a file and an engine; spans and log records of its traces.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/agent/traces.hpp"
#include "cli/profile/sending.hpp"
#include "cli/trace/sending.hpp"
#include "export/exporter.hpp"
#include "profile/time_totals.hpp"
#include "telemetry/metrics.hpp"

namespace vitrine::cli {

/// [metrics], and where metrics, spans and log records go.
class MetricsOptions {
 public:
  void define(CLI::App& app);
  /// Errors: usage.
  Result<void> take();

  /// The URL that takes metrics, spans and log records; `profiles`: that of profiles. Empty: none does.
  [[nodiscard]] std::string engine(const std::string& profiles) const;

  std::vector<std::string> by;   ///< keys of CPU time; empty: it is not added up
  std::size_t label_values = 0;  ///< of each key, with series of their own
  std::string textfile;          ///< empty: none
  std::chrono::milliseconds interval{};
  bool pushed = true;  ///< metrics go to the engine, too

 private:
  std::string url_;
  std::string interval_;
  bool no_push_ = false;
};

/// What an agent counts of itself.
struct OwnMetrics {
  std::vector<telemetry::Metric> metrics;
  std::uint64_t start_ns = 0;  ///< Unix time: from then on they count, also over reloads
};

class AgentSignals {
 public:
  /// Attaches traces. `before`: what is to end when these begin. Errors: those of Trace::open.
  static Result<std::unique_ptr<AgentSignals>> open(const MetricsOptions& options,
                                                    const std::vector<TraceTable>& tables,
                                                    const AgentSignals* before = nullptr);

  /// Opens what sends, with the options of `sending`. Errors: usage, and those of exporter::Exporter.
  Result<void> open_senders(const SendingOptions& sending, SendingOptions::Spooling spooling);
  /// Begins to read traces. Call it once the capabilities are dropped that its thread must not have.
  /// `held_back`: put into effect while it attaches.
  void begin(sandbox::Capabilities held_back);
  /// Adds up a profile. In any thread.
  void add(const profile::Profile& profile);
  /// Those of the sender of metrics.
  void print_notes();
  /// Whether it is time to publish().
  [[nodiscard]] bool is_due() const { return std::chrono::steady_clock::now() >= next_; }
  /// Writes and sends metrics.
  void publish(const OwnMetrics& own);
  /// All that a page shows, beside the agent's own. In any thread.
  [[nodiscard]] std::vector<telemetry::Metric> metrics();
  /// Ends the traces, but for those that go on in `next`, and sends what is left for at most some seconds.
  /// False: some of it is lost.
  bool finish(const OwnMetrics& own, AgentSignals* next = nullptr);
  /// After finish(): others may use the spools.
  void close_senders();

  [[nodiscard]] exporter::ExportCounters counters() const;

 private:
  AgentSignals(MetricsOptions options, const std::vector<TraceTable>& tables);
  [[nodiscard]] std::vector<telemetry::Metric> times();

  MetricsOptions options_;
  bool sends_metrics_ = false, sends_spans_ = false, sends_logs_ = false;
  std::unique_ptr<AgentTraces> traces_;
  std::unique_ptr<TraceSender> metrics_sender_;
  EventSenders event_senders_;  ///< until begin(), and from finish() on
  std::vector<TraceSender*> senders_;
  std::string resource_;  ///< of what is about the whole machine
  std::chrono::steady_clock::time_point next_{};
  bool write_failed_ = false;
  std::mutex mutex_;  // of:
  profile::TimeTotals totals_;
};

}  // namespace vitrine::cli
