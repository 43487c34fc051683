#include "profile/time_totals.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/label_keys.hpp"
#include "profile/select.hpp"

namespace vitrine::profile {
namespace {

using telemetry::Attributes;
using telemetry::Metric;
using telemetry::MetricKind;

std::string seconds_text(std::uint64_t ns) {
  return fmt::format("{}.{:09}", ns / 1'000'000'000, ns % 1'000'000'000);
}

double seconds_of(std::uint64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

std::optional<telemetry::Exemplar> exemplar_of(const Profile& profile, const Sample& sample) {
  if (sample.link >= profile.links.size()) return std::nullopt;
  const Link& link = profile.links[sample.link];
  telemetry::Exemplar exemplar;
  exemplar.time_ns = sample.time_ns;
  exemplar.value = seconds_of(sample.value_ns);
  exemplar.text = seconds_text(sample.value_ns);
  exemplar.trace.trace_id = link.trace_id;
  exemplar.trace.span_id = link.span_id;
  return exemplar;
}

const std::string* resource_attribute(const Profile& profile, const Sample& sample,
                                      std::string_view key) {
  if (sample.process >= profile.processes.size()) return nullptr;
  const auto& resource = profile.processes[sample.process].resource;
  const auto found = std::ranges::find(resource, key, &Attribute::key);
  return found == resource.end() ? nullptr : &found->value;
}

}  // namespace

void TimeTotals::Total::merge(Total&& more) {
  ns += more.ns;
  samples += more.samples;
  if (more.exemplar && (!exemplar || more.exemplar->time_ns >= exemplar->time_ns))
    exemplar = std::move(more.exemplar);
}

Attributes TimeTotals::attributes_of(const Profile& profile, const Sample& sample) const {
  Attributes attributes;
  for (const std::string& key : keys_) {
    auto value = value_of(profile, sample, key);
    if (!value)
      if (const std::string* its = resource_attribute(profile, sample, key)) value = *its;
    // To Prometheus an empty label is none: two series would be one.
    if (value && !value->empty()) attributes.push_back({key, metric_label(*value)});
  }
  return attributes;
}

void TimeTotals::take_in(Total total, Totals& totals) {
  const std::size_t folded = budget_.folded_series();
  if (!budget_.take(total.attributes, 0)) {
    total.attributes.clear();
    for (const std::string& key : keys_) total.attributes.push_back({key, telemetry::other_value});
  }
  if (budget_.folded_series() != folded) folded_samples_ += total.samples;
  std::string name = telemetry::encode_resource(total.attributes);
  const auto [known, is_new] = totals.try_emplace(std::move(name));
  if (is_new) known->second.attributes = total.attributes;
  known->second.merge(std::move(total));
}

void TimeTotals::add(const Profile& profile) {
  Totals on_cpu, off_cpu;
  for (const Sample& sample : profile.samples) {
    Total one{attributes_of(profile, sample), sample.value_ns, sample.count,
              exemplar_of(profile, sample)};
    Totals& totals = sample.measure == Measure::on_cpu ? on_cpu : off_cpu;
    const auto [known, is_new] = totals.try_emplace(telemetry::encode_resource(one.attributes));
    if (is_new) known->second.attributes = one.attributes;
    known->second.merge(std::move(one));
  }
  budget_.begin();
  for (const auto& [taken, totals] :
       {std::pair{&on_cpu, &on_cpu_}, std::pair{&off_cpu, &off_cpu_}}) {
    std::vector<Total> largest;
    for (auto& [name, total] : *taken) largest.push_back(std::move(total));
    std::ranges::stable_sort(largest, std::greater<>(), &Total::ns);
    for (Total& total : largest) take_in(std::move(total), *totals);
  }
}

std::vector<Metric> TimeTotals::metrics() const {
  std::vector<Metric> metrics;
  const auto add = [&](std::string name, std::string text_name, std::string description,
                       const Totals& totals) {
    Metric metric{MetricKind::counter,
                  std::move(name),
                  std::move(text_name),
                  "s",
                  std::move(description),
                  {},
                  keys_};
    for (const auto& [key, total] : totals) {
      telemetry::Point point;
      point.attributes = total.attributes;
      point.value = seconds_of(total.ns);
      point.text = seconds_text(total.ns);
      point.exemplar = total.exemplar;
      metric.points.push_back(std::move(point));
    }
    if (!metric.points.empty()) metrics.push_back(std::move(metric));
  };
  add("vitrine.cpu.time", "vitrine_cpu_seconds", "CPU time, by samples.", on_cpu_);
  add("vitrine.off_cpu.time", "vitrine_off_cpu_seconds", "Time of threads off the CPU.", off_cpu_);
  metrics.push_back(telemetry::plain_metric(MetricKind::counter, "vitrine_folded_samples",
                                            folded_samples_,
                                            "Samples whose time is in __other__."));
  if (Metric values = budget_.folded_values("vitrine.folded.values", "vitrine_folded_values");
      !values.points.empty())
    metrics.push_back(std::move(values));
  return metrics;
}

}  // namespace vitrine::profile
