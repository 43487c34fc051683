// Reductions as metrics: a file in the text format of Prometheus, version 0.0.4, as the textfile
// collector of its node exporter reads it (https://prometheus.io/docs/instrumenting/exposition_formats).
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "query/reduction.hpp"

namespace vitrine::cli {

/// One metric by kind, with the probe and the columns of --by as labels; a key that is not set has no
/// label:
///
///   count    vitrine_probe_fires_total       counter
///   sum      vitrine_probe_value             summary without quantiles
///   hist     vitrine_probe_value             histogram; buckets end at powers of two
///   latency  vitrine_probe_latency_seconds   histogram; buckets end at powers of two nanoseconds
///
/// and what the rows lack: vitrine_trace_lost_total, vitrine_trace_unread_total,
/// vitrine_trace_unpaired_total and vitrine_trace_folded_groups. Counts of buckets are exact.
class ReductionMetrics {
 public:
  /// `max_groups`: how many groups have series of their own. Those that came first keep them, as what
  /// is a counter may not shrink; all others are one group, whose probe and keys are "__other__".
  explicit ReductionMetrics(std::size_t max_groups) : max_groups_(max_groups) {}

  std::string text(const query::ReductionTable& table);

 private:
  std::size_t max_groups_;
  std::set<std::string> groups_;  ///< with series of their own: by their labels
};

}  // namespace vitrine::cli
