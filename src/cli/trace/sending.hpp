// What a trace sends: fires as log records, pairs as spans, what is added up as metrics.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/sending/engine.hpp"
#include "cli/trace/wall_clock.hpp"
#include "export/exporter.hpp"
#include "observe/trace/trace.hpp"
#include "telemetry/metrics.hpp"
#include "telemetry/records.hpp"
#include "telemetry/requests.hpp"

namespace vitrine::cli {

class TraceSender {
 public:
  /// `request_bytes`: of one request; 0: the usual. Errors: those of exporter::Exporter.
  static Result<std::unique_ptr<TraceSender>> open(exporter::ExportOptions sending,
                                                   std::size_t request_bytes);

  /// Takes a fire or a pair; take_out() hands it over.
  void add(const observe::TraceEvent& event);
  /// Takes metrics, as above; `resource` is a message of OTLP. `start_ns`: Unix time from when on they
  /// count; 0: since open().
  void add(const std::vector<telemetry::Metric>& metrics, const std::string& resource,
           std::uint64_t start_ns = 0);
  /// Takes them, and hands all over.
  void send(const std::vector<telemetry::Metric>& metrics, const std::string& resource,
            std::uint64_t start_ns = 0);

  /// Hands over what has waited for a second, or is a request's worth; `all`: everything.
  void take_out(bool all = false);
  void print_notes();
  /// Waits for what is still to be sent, for a while, ends the sending, and reports what became of
  /// all. False: some of it is lost.
  bool finish();
  [[nodiscard]] exporter::ExportCounters counters() const { return exporter_->counters(); }
  [[nodiscard]] const std::string& spool() const { return spool_; }

  /// What to add to the clock of events for the time since 1970.
  [[nodiscard]] std::int64_t wall_clock_ns() const { return clock_.offset_ns(); }

 private:
  using Clock = std::chrono::steady_clock;

  TraceSender(std::unique_ptr<exporter::Exporter> exporter, std::size_t request_bytes,
              std::string spool, exporter::Signal signal);

  std::unique_ptr<exporter::Exporter> exporter_;
  std::size_t request_bytes_;
  std::string spool_;
  exporter::Signal signal_;
  telemetry::Requests requests_;
  telemetry::SpanIds ids_;
  WallClock clock_;
  std::uint64_t start_ns_;   ///< Unix time: from then on metrics count
  std::string no_resource_;  ///< the resource of what belongs to no known process
  Clock::time_point next_out_;
  std::uint64_t too_large_ = 0;  ///< reported so far
};

}  // namespace vitrine::cli
