// TimeTotals: CPU time and time off the CPU by label, added up from one profile to the next, as
// counters for Prometheus and OTLP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "profile/profile.hpp"
#include "telemetry/budget.hpp"
#include "telemetry/metrics.hpp"

namespace vitrine::profile {

/// The values of `keys` are the labels of a series: labels of samples, words of value_of(), and else
/// resource attributes of the process. A key that is not set, or empty, has no label.
///
///   vitrine_cpu_seconds_total         vitrine.cpu.time        on-CPU samples, each with its share of time
///   vitrine_off_cpu_seconds_total     vitrine.off_cpu.time    waits, each when it ends
///   vitrine_folded_samples_total      vitrine.folded.samples  samples that are in "__other__"
///   vitrine_folded_values             vitrine.folded.values   values of a key of the last profile there
///
/// A series has the trace of a sample of it, the latest one, as its exemplar.
class TimeTotals {
 public:
  /// Of each key the first `max_values` values have series of their own, of one profile those with
  /// most time; past `max_series` series all keys are "__other__". Memory is bounded by these two.
  TimeTotals(std::vector<std::string> keys, std::size_t max_values, std::size_t max_series)
      : keys_(std::move(keys)), budget_(max_values, max_series) {}

  void add(const Profile& profile);
  [[nodiscard]] std::vector<telemetry::Metric> metrics() const;

 private:
  struct Total {
    telemetry::Attributes attributes;
    std::uint64_t ns = 0;
    std::uint64_t samples = 0;
    std::optional<telemetry::Exemplar> exemplar;
    void merge(Total&& more);
  };
  /// By their encoded attributes.
  using Totals = std::map<std::string, Total>;

  [[nodiscard]] telemetry::Attributes attributes_of(const Profile& profile,
                                                    const Sample& sample) const;
  void take_in(Total total, Totals& totals);

  std::vector<std::string> keys_;
  telemetry::LabelBudget budget_;
  Totals on_cpu_, off_cpu_;
  std::uint64_t folded_samples_ = 0;
};

}  // namespace vitrine::profile
