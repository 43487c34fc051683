// Reductions as metrics, for Prometheus and for OTLP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "query/reduction.hpp"
#include "telemetry/budget.hpp"
#include "telemetry/metrics.hpp"

namespace vitrine::cli {

/// The label that names one of several traces.
inline constexpr const char* trace_key = "trace";
inline constexpr const char* lost_fires = "Fires that could not be added up.";

/// One metric by kind, with the probe and the columns of --by as labels; a key that is not set has no
/// label. In text, and in OTLP (where a sum has its count as vitrine.probe.value.count):
///
///   count    vitrine_probe_fires_total       counter    vitrine.probe.fires
///   sum      vitrine_probe_value             summary    vitrine.probe.value
///   hist     vitrine_probe_value             histogram  vitrine.probe.value
///   latency  vitrine_probe_latency_seconds   histogram  vitrine.probe.latency, in nanoseconds
///
/// and what the rows lack: vitrine_trace_lost_total, vitrine_trace_unread_total,
/// vitrine_trace_unpaired_total, vitrine_trace_folded_groups and, where there are any,
/// vitrine_trace_folded_values by key. Counts of buckets, which end at powers of two, are exact.
class ReductionMetrics {
 public:
  /// Groups past the limit are one, whose probe and keys are "__other__"; of keys with more values
  /// than `max_values`, the later values are.
  explicit ReductionMetrics(std::size_t max_groups, std::size_t max_values = ~std::size_t{0})
      : budget_(max_values, max_groups) {}

  /// `wall_clock_ns`: what the clock of fires lacks to the time since 1970. `name`: of the trace, where
  /// there are several: each metric has it as the label `trace`.
  std::vector<telemetry::Metric> of(const query::ReductionTable& table,
                                    std::int64_t wall_clock_ns = 0, std::string_view name = {});

  std::string text(const query::ReductionTable& table) {
    return telemetry::prometheus_text(of(table));
  }

 private:
  telemetry::LabelBudget budget_;
};

/// A bucket of buckets.h as one of an exponential histogram of scale 0, which ends within 2^i: all its
/// values above 2^i and up to 2^(i + 1), but for the least one where it is 2^i itself and the bucket
/// holds others. `fractions`: the bucket has what is below its next integer, too.
std::int32_t power_bucket(std::uint32_t magnitude_bucket, bool fractions);

}  // namespace vitrine::cli
