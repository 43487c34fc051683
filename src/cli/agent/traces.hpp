// AgentTraces: the traces of an agent, in a thread of their own.
//
// Ownership: between begin() and end() the traces, and the senders of spans and log records, belong
// to the thread. What it has added up is published under a mutex once a second; the pages and the
// sender of metrics read that.
//
// A file that is not there yet, or that an update replaces, is tried again: its counters begin at 0.
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
  /// Attaches. Errors: those of Trace::open, but of files that are not there.
  static Result<std::unique_ptr<AgentTraces>> open(const std::vector<TraceTable>& tables);
  /// Ends.
  ~AgentTraces();
  AgentTraces(const AgentTraces&) = delete;
  AgentTraces& operator=(const AgentTraces&) = delete;

  void begin(EventSenders senders);
  /// What has fired is added up and handed to the senders, which are returned.
  EventSenders end();

  [[nodiscard]] std::vector<TraceMetrics> metrics();

 private:
  using Clock = std::chrono::steady_clock;

  /// Which file a path is now, and when it was changed: it may still be being written.
  struct Identity {
    std::uint64_t device = 0, inode = 0;
    std::int64_t changed_ns = 0;
    bool operator==(const Identity&) const = default;
    [[nodiscard]] bool is_same_file(const Identity& other) const {
      return device == other.device && inode == other.inode;
    }
  };
  struct Running {
    explicit Running(const TraceTable& its)
        : table(its), metrics(limits::metric_groups, its.label_values) {}
    TraceTable table;
    std::unique_ptr<observe::Trace> trace;  ///< null: its files are waited for
    std::vector<Identity> files;
    Clock::time_point tried{};
    ReductionMetrics metrics;
    std::uint64_t start_ns = 0;
    std::uint64_t events = 0;
    std::string problem;  ///< reported last
  };

  AgentTraces() = default;
  static std::vector<Identity> identities_of(const TraceTable& table);
  Result<void> attach(Running& running);
  void renew(Running& running);
  void run();
  void finish();
  bool poll(Running& running);
  void drain(Running& running);
  void publish(std::size_t index);
  [[nodiscard]] static TraceMetrics metrics_of(Running& running);

  std::vector<std::unique_ptr<Running>> running_;
  EventSenders senders_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
  std::mutex mutex_;  // of:
  std::vector<TraceMetrics> published_;
};

}  // namespace vitrine::cli
