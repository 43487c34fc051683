// AgentTraces: the traces of an agent, in a thread of their own.
//
// Ownership: between begin() and end() the traces, and the senders of spans and log records, belong
// to the thread. What it has added up is published under a mutex once a second; the pages and the
// sender of metrics read that.
//
// A file that is not there yet, or that an update replaces, is tried again. What was counted until
// then stays in the counters.
//
// A reload counts each fire once. Traces that it does not change are handed on as they are. Of the
// others the new ones are attached while the old ones go on, and count nothing; end() then chooses a
// time shortly ahead, until which the old ones count, and from which on the new ones do.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.hpp"
#include "cli/agent/trace_table.hpp"
#include "cli/trace/metrics.hpp"
#include "cli/trace/sending.hpp"
#include "observe/trace/trace.hpp"
#include "sandbox/capabilities.hpp"
#include "sandbox/files.hpp"
#include "telemetry/metrics.hpp"

namespace vitrine::cli {

/// What one trace has added up, since `start_ns` (Unix time).
struct TraceMetrics {
  std::vector<telemetry::Metric> metrics;
  std::string resource;
  std::uint64_t start_ns = 0;
};

/// Where events go; null: nowhere.
struct EventSenders {
  std::unique_ptr<TraceSender> spans, logs;
};

class AgentTraces {
 public:
  /// Attaches. Errors: those of Trace::open, but of files that are not there. `before`: those that
  /// these are to replace, by end(); what both have is not attached to again.
  static Result<std::unique_ptr<AgentTraces>> open(const std::vector<TraceTable>& tables,
                                                   const AgentTraces* before = nullptr);
  /// Ends.
  ~AgentTraces();
  AgentTraces(const AgentTraces&) = delete;
  AgentTraces& operator=(const AgentTraces&) = delete;

  /// `held_back`: capabilities that are in effect only while it attaches.
  void begin(EventSenders senders, sandbox::Capabilities held_back);
  /// What has fired is added up and handed to the senders, which are returned; what `next` has, too,
  /// goes on there. What takes longer than a second is lost, and counted.
  EventSenders end(AgentTraces* next = nullptr);

  [[nodiscard]] std::vector<TraceMetrics> metrics();

 private:
  using Clock = std::chrono::steady_clock;

  struct Running {
    explicit Running(const TraceTable& its)
        : table(its), metrics(limits::metric_groups, its.label_values) {}
    TraceTable table;
    std::unique_ptr<observe::Trace> trace;  ///< null: its files are waited for
    std::vector<sandbox::FileIdentity> files;
    Clock::time_point tried{};
    ReductionMetrics metrics;
    std::uint64_t start_ns = 0;  ///< Unix time; 0: it has never been attached
    std::uint64_t events = 0;
    query::ReductionTable before;  ///< of files that were replaced
    std::uint64_t lost = 0;        ///< of those, and what there was no time for
    std::string problem;           ///< reported last
  };

  AgentTraces() = default;
  /// Which files its paths are now; those that are not there are all zeros. Errors: limit (the file system of one does
  /// not respond).
  static Result<std::vector<sandbox::FileIdentity>> identities_of(const TraceTable& table);
  Result<void> attach(Running& running, bool is_held);
  [[nodiscard]] const Running* find(const TraceTable& table) const;
  void renew(Running& running);
  void run();
  void hand_over(const AgentTraces& next);
  bool poll(Running& running);
  void drain(Running& running, Clock::time_point until);
  static void keep_counts(Running& running);
  void publish(std::size_t index);
  [[nodiscard]] static TraceMetrics metrics_of(Running& running);

  std::vector<std::unique_ptr<Running>> running_;
  EventSenders senders_;
  sandbox::Capabilities held_back_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
  std::mutex mutex_;  // of:
  std::vector<TraceMetrics> published_;
};

}  // namespace vitrine::cli
