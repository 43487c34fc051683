#include "cli/trace/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "base/label_keys.hpp"
#include "base/text.hpp"
#include "cli/output/text.hpp"
#include "cli/trace/output.hpp"
#include "query/buckets.h"

namespace vitrine::cli {
namespace {

using query::ReductionKind;
using query::ReductionRow;
using query::ReductionTable;
using telemetry::Amount;
using telemetry::Attributes;
using telemetry::Metric;
using telemetry::MetricKind;

// Ends of buckets of latencies, as exponents of two: a microsecond to a minute. A series that is
// there from the start has a rate from its first value on.
constexpr int shortest_latency = 10;
constexpr int longest_latency = 36;
constexpr int largest_exponent = 64;  // of 64 bits

/// The keys of labels: those of --by, each of its own; probe and value are names of vitrine's.
std::vector<std::string> label_keys(const std::vector<std::string>& titles, bool has_name) {
  telemetry::DistinctNames names{"probe", "value"};
  if (has_name) names.add(trace_key);
  std::vector<std::string> keys;
  for (const std::string& title : titles) keys.push_back(names.add(title));
  return keys;
}

std::string key_value(const query::Key& key, query::Format format, std::uint8_t width) {
  if (const auto* text = std::get_if<probe::StringValue>(&*key);
      text != nullptr && format == query::Format::plain)
    return metric_label(text->text);
  return value_text(*key, format, width);
}

class Labels {
 public:
  Labels(const ReductionTable& table, bool has_name)
      : table_(table), keys_(label_keys(table.by, has_name)) {}

  [[nodiscard]] Attributes of(const ReductionRow& row) const {
    Attributes labels = start(row.probe);
    for (std::size_t i = 0; i < std::min(keys_.size(), row.keys.size()); ++i) {
      if (!row.keys[i]) continue;
      std::string value = key_value(row.keys[i], format(i), width(row, i));
      // To Prometheus an empty label is none: two series would be one.
      if (!value.empty()) labels.push_back({keys_[i], std::move(value)});
    }
    return labels;
  }

  [[nodiscard]] Attributes of_rest() const {
    Attributes labels = start(telemetry::other_value);
    for (const std::string& key : keys_) labels.push_back({key, telemetry::other_value});
    return labels;
  }

  /// Of all rows, whether or not they have them.
  [[nodiscard]] std::vector<std::string> keys() const {
    std::vector<std::string> keys;
    for (const telemetry::Attribute& own : start({})) keys.push_back(own.key);
    keys.insert(keys.end(), keys_.begin(), keys_.end());
    return keys;
  }

  /// Labels of vitrine's own come first.
  [[nodiscard]] std::size_t own() const { return table_.value.empty() ? 1 : 2; }

 private:
  [[nodiscard]] Attributes start(std::string_view probe) const {
    Attributes labels{{"probe", metric_label(probe)}};
    if (!table_.value.empty()) labels.push_back({"value", metric_label(table_.value)});
    return labels;
  }
  [[nodiscard]] query::Format format(std::size_t column) const {
    return column < table_.by_formats.size() ? table_.by_formats[column] : query::Format::plain;
  }
  static std::uint8_t width(const ReductionRow& row, std::size_t column) {
    return column < row.widths.size() ? row.widths[column] : std::uint8_t{8};
  }

  const ReductionTable& table_;
  std::vector<std::string> keys_;
};

/// What ends a bucket: all values up to it.
struct End {
  std::int32_t bucket = 0;  ///< the last one of buckets.h that is within it
  std::string le;
};

/// The last bucket of the values below 2^exponent.
std::int32_t last_below(int exponent) {
  if (exponent == 0) return 0;
  const std::uint64_t largest = ~std::uint64_t{0} >> (64 - exponent);
  return vitrine_bucket_of(largest, 0);
}

std::uint64_t power(int exponent) {
  return std::uint64_t{1} << exponent;
}

std::vector<End> latency_ends() {
  std::vector<End> ends;
  for (int exponent = shortest_latency; exponent <= longest_latency; ++exponent) {
    const auto below = static_cast<double>(power(exponent) - 1);
    ends.push_back({last_below(exponent), fmt::format("{}", below / 1e9)});
  }
  return ends;
}

bool is_fraction(const std::optional<query::Number>& number) {
  return number && std::holds_alternative<double>(*number);
}

/// Whole numbers are at most 2^k - 1 within a bucket; fractions are below 2^k.
std::vector<End> value_ends(const ReductionTable& table) {
  std::int32_t least = 0, greatest = 0;
  bool fractions = false;
  const auto look_at = [&](const ReductionRow& row) {
    if (row.histogram.empty()) return;
    least = std::min(least, row.histogram.buckets().front().index);
    greatest = std::max(greatest, row.histogram.buckets().back().index);
    fractions = fractions || is_fraction(row.least) || is_fraction(row.greatest);
  };
  std::for_each(table.rows.begin(), table.rows.end(), look_at);
  look_at(table.others);
  std::vector<End> ends;
  // A negative bucket of magnitude m is -1 - m; values up to -2^k have magnitudes from 2^k on.
  for (int exponent = largest_exponent - 1; exponent >= 0 && least < 0; --exponent) {
    const std::int32_t bucket = -1 - vitrine_bucket_of(power(exponent), 0);
    if (bucket >= least) ends.push_back({bucket, fmt::format("-{}", power(exponent))});
  }
  for (int exponent = 0; exponent < largest_exponent; ++exponent) {
    const std::int32_t bucket = last_below(exponent);
    ends.push_back({bucket, std::to_string(power(exponent) - (fractions ? 0 : 1))});
    if (bucket >= greatest) break;
  }
  return ends;
}

void add_ends(const ReductionRow& row, const std::vector<End>& ends, telemetry::Point& point) {
  auto bucket = row.histogram.buckets().begin();
  const auto all = row.histogram.buckets().end();
  std::uint64_t count = 0;
  for (const End& end : ends) {
    for (; bucket != all && bucket->index <= end.bucket; ++bucket) count += bucket->count;
    point.ends.push_back({end.le, count});
  }
}

void add_buckets(const ReductionRow& row, telemetry::Point& point) {
  const bool fractions = is_fraction(row.least) || is_fraction(row.greatest);
  for (const query::Histogram::Bucket& bucket : row.histogram.buckets()) {
    if (bucket.index == 0 || bucket.index == -1) {
      point.zeros += bucket.count;
      continue;
    }
    auto& side = bucket.index > 0 ? point.positive : point.negative;
    const auto magnitude =
        static_cast<std::uint32_t>(bucket.index > 0 ? bucket.index : -1 - bucket.index);
    side.add(power_bucket(magnitude, fractions), bucket.count);
  }
}

Metric metric_of(ReductionKind kind) {
  switch (kind) {
    case ReductionKind::sum:
      return {MetricKind::total,
              "vitrine.probe.value",
              "vitrine_probe_value",
              "1",
              "Values of an argument of a probe.",
              {}};
    case ReductionKind::histogram:
      return {MetricKind::histogram,
              "vitrine.probe.value",
              "vitrine_probe_value",
              "1",
              "Values of an argument of a probe.",
              {}};
    case ReductionKind::latency:
      return {MetricKind::histogram,
              "vitrine.probe.latency",
              "vitrine_probe_latency_seconds",
              "ns",
              "Time from one probe to the next.",
              {}};
    case ReductionKind::count:
      break;
  }
  return {MetricKind::counter,   "vitrine.probe.fires",
          "vitrine_probe_fires", "{fire}",
          "Fires of a probe.",   {}};
}

std::int64_t saturated(std::uint64_t count) {
  return static_cast<std::int64_t>(
      std::min<std::uint64_t>(count, std::numeric_limits<std::int64_t>::max()));
}

Amount amount_of(const query::Number& number) {
  if (const auto* whole = std::get_if<std::int64_t>(&number)) return *whole;
  if (const auto* natural = std::get_if<std::uint64_t>(&number);
      natural != nullptr && *natural <= std::numeric_limits<std::int64_t>::max())
    return static_cast<std::int64_t>(*natural);
  return query::to_double(number);
}

std::string seconds(double nanoseconds) {
  return fmt::format("{}", nanoseconds / 1e9);
}

std::optional<telemetry::Exemplar> exemplar_of(const ReductionRow& row, ReductionKind kind,
                                               std::int64_t wall_clock_ns) {
  if (!row.exemplar) return std::nullopt;
  const query::ReductionExemplar& from = *row.exemplar;
  telemetry::Exemplar to;
  // The replacement of a hidden id is no id.
  parse_hex(from.trace_id, to.trace.trace_id);
  parse_hex(from.span_id, to.trace.span_id);
  if (!is_id(to.trace.trace_id) || !is_id(to.trace.span_id)) return std::nullopt;
  to.time_ns = from.time_ns + static_cast<std::uint64_t>(wall_clock_ns);
  to.value = amount_of(from.value);
  to.text = kind == ReductionKind::latency
                ? seconds(query::to_double(from.value))
                : std::visit([](auto number) { return fmt::format("{}", number); }, from.value);
  return to;
}

telemetry::Point point_of(const ReductionRow& row, ReductionKind kind, const std::vector<End>& ends,
                          std::int64_t wall_clock_ns) {
  telemetry::Point point;
  point.exemplar = exemplar_of(row, kind, wall_clock_ns);
  point.count = row.count;
  if (kind == ReductionKind::count) {
    point.value = saturated(row.count);
    point.text = std::to_string(row.count);
    return point;
  }
  const auto number = row.sum.number();
  point.value = number ? amount_of(*number) : Amount(row.sum.to_double());
  point.text = kind == ReductionKind::latency ? seconds(row.sum.to_double()) : row.sum.text();
  if (kind == ReductionKind::sum) return point;
  if (row.least) point.least = query::to_double(*row.least);
  if (row.greatest) point.greatest = query::to_double(*row.greatest);
  point.count = row.histogram.count();
  add_ends(row, ends, point);
  add_buckets(row, point);
  return point;
}

/// Orders labels by their texts.
struct ByText {
  bool operator()(const Attributes& left, const Attributes& right) const {
    return std::lexicographical_compare(left.begin(), left.end(), right.begin(), right.end(),
                                        [](const auto& a, const auto& b) {
                                          return std::tie(a.key, std::get<std::string>(a.value)) <
                                                 std::tie(b.key, std::get<std::string>(b.value));
                                        });
  }
};

}  // namespace

std::int32_t power_bucket(std::uint32_t magnitude_bucket, bool fractions) {
  const std::uint64_t low = vitrine_bucket_low(magnitude_bucket);
  if (fractions) return static_cast<std::int32_t>(vitrine_top_bit(low));
  const std::uint64_t high = low + (vitrine_bucket_width(magnitude_bucket) - 1);
  return high == 1 ? -1 : static_cast<std::int32_t>(vitrine_top_bit(high - 1));
}

std::vector<Metric> ReductionMetrics::of(const ReductionTable& table, std::int64_t wall_clock_ns,
                                         std::string_view name) {
  const Labels labels(table, !name.empty());
  std::map<Attributes, ReductionRow, ByText> shown;
  const auto show = [&](Attributes its, const ReductionRow& row) {
    if (const auto [known, is_new] = shown.try_emplace(std::move(its), row); !is_new)
      merge(known->second, row);
  };
  budget_.begin();
  for (const ReductionRow& row : table.rows) {
    Attributes its = labels.of(row);
    const bool has_series = budget_.take(its, labels.own());
    show(has_series ? std::move(its) : labels.of_rest(), row);
  }
  if (table.others.count > 0) show(labels.of_rest(), table.others);

  std::vector<Metric> metrics{metric_of(table.kind)};
  metrics.front().keys = labels.keys();
  const auto ends = table.kind == ReductionKind::latency     ? latency_ends()
                    : table.kind == ReductionKind::histogram ? value_ends(table)
                                                             : std::vector<End>();
  for (const auto& [its, row] : shown) {
    telemetry::Point point = point_of(row, table.kind, ends, wall_clock_ns);
    point.attributes = its;
    metrics.front().points.push_back(std::move(point));
  }
  metrics.push_back(
      telemetry::plain_metric(MetricKind::counter, "vitrine_trace_lost", table.lost, lost_fires));
  metrics.push_back(
      telemetry::plain_metric(MetricKind::counter, "vitrine_trace_unread", table.unread,
                              "Fires whose value could not be read or is not finite."));
  metrics.push_back(telemetry::plain_metric(MetricKind::counter, "vitrine_trace_unpaired",
                                            table.without_start + table.without_end,
                                            "Starts and ends without the other."));
  metrics.push_back(telemetry::plain_metric(
      MetricKind::gauge, "vitrine_trace_folded_groups", budget_.folded_series(),
      "Groups without series of their own, which are in __other__."));
  Metric values =
      budget_.folded_values("vitrine.trace.folded.values", "vitrine_trace_folded_values");
  if (!values.points.empty()) metrics.push_back(std::move(values));
  if (name.empty()) return metrics;
  for (Metric& metric : metrics) {
    metric.keys.insert(metric.keys.begin(), trace_key);
    for (telemetry::Point& point : metric.points)
      point.attributes.insert(point.attributes.begin(), {trace_key, metric_label(name)});
  }
  return metrics;
}

}  // namespace vitrine::cli
