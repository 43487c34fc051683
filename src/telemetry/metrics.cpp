#include "telemetry/metrics.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace vitrine::telemetry {
namespace {

namespace metric {
constexpr Tag name = 1, description = 2, unit = 3, gauge = 5, sum = 7, exponential_histogram = 10;
}
namespace series {  // Gauge, Sum, ExponentialHistogram
constexpr Tag data_points = 1, temporality = 2, is_monotonic = 3;
}
namespace number {  // NumberDataPoint
constexpr Tag start = 2, time = 3, as_double = 4, exemplars = 5, as_int = 6, attributes = 7;
}
namespace histogram {  // ExponentialHistogramDataPoint
constexpr Tag attributes = 1, start = 2, time = 3, count = 4, sum = 5, scale = 6, zero_count = 7,
              positive = 8, negative = 9, exemplars = 11, min = 12, max = 13;
}
namespace buckets {
constexpr Tag offset = 1, counts = 2;
}
namespace exemplar {
constexpr Tag time = 2, as_double = 3, span_id = 4, trace_id = 5, as_int = 6;
}
constexpr std::int32_t cumulative = 2;
constexpr std::size_t points_at_once = 256;             // of one message
constexpr std::size_t usual_message_bytes = 64U << 10;  // after which another one begins

double to_double(const Amount& amount) {
  return std::visit([](auto one) { return static_cast<double>(one); }, amount);
}

void add_amount(Writer& message, Tag as_int, Tag as_double, const Amount& amount) {
  if (const auto* whole = std::get_if<std::int64_t>(&amount))
    message.add_sfixed64(as_int, *whole);
  else
    message.add_double(as_double, std::get<double>(amount));
}

void add_exemplar(Writer& point, Tag tag, const std::optional<Exemplar>& from) {
  if (!from) return;
  Writer message(point, tag);
  message.add_fixed64(exemplar::time, from->time_ns);
  add_amount(message, exemplar::as_int, exemplar::as_double, from->value);
  add_id(message, exemplar::span_id, from->trace.span_id);
  add_id(message, exemplar::trace_id, from->trace.trace_id);
}

void add_number(Writer& parent, const Point& point, const Interval& interval, bool is_now) {
  Writer message(parent, series::data_points);
  if (!is_now) message.add_fixed64(number::start, interval.start_ns);
  message.add_fixed64(number::time, interval.end_ns);
  add_amount(message, number::as_int, number::as_double, point.value);
  add_exemplar(message, number::exemplars, point.exemplar);
  add_attributes(message, number::attributes, point.attributes);
}

void add_buckets(Writer& parent, Tag tag, const PowerBuckets& from) {
  if (from.counts.empty()) return;
  Writer message(parent, tag);
  message.add_sint32(buckets::offset, from.offset);
  message.add_packed_uint64(buckets::counts, from.counts.begin(), from.counts.end());
}

void add_histogram(Writer& parent, const Point& point, const Interval& interval) {
  Writer message(parent, series::data_points);
  add_attributes(message, histogram::attributes, point.attributes);
  message.add_fixed64(histogram::start, interval.start_ns);
  message.add_fixed64(histogram::time, interval.end_ns);
  message.add_fixed64(histogram::count, point.count);
  // Receivers take a sum that shrinks for a new start.
  if (point.negative.counts.empty()) message.add_double(histogram::sum, to_double(point.value));
  message.add_sint32(histogram::scale, 0);
  message.add_fixed64(histogram::zero_count, point.zeros);
  add_buckets(message, histogram::positive, point.positive);
  add_buckets(message, histogram::negative, point.negative);
  add_exemplar(message, histogram::exemplars, point.exemplar);
  if (point.least) message.add_double(histogram::min, *point.least);
  if (point.greatest) message.add_double(histogram::max, *point.greatest);
}

/// Points from `first` on; `first` becomes that of the next message.
std::string encode(const Metric& from, std::size_t& first, const Interval& interval) {
  const std::size_t end = std::min(first + points_at_once, from.points.size());
  std::string encoded;
  Writer message(encoded);
  message.add_string(metric::name, from.name);
  message.add_string(metric::description, from.description);
  message.add_string(metric::unit, from.unit);
  const Tag tag = from.kind == MetricKind::gauge       ? metric::gauge
                  : from.kind == MetricKind::histogram ? metric::exponential_histogram
                                                       : metric::sum;
  Writer its(message, tag);
  for (; first < end && encoded.size() < usual_message_bytes; ++first) {
    if (from.kind == MetricKind::histogram)
      add_histogram(its, from.points[first], interval);
    else
      add_number(its, from.points[first], interval, from.kind == MetricKind::gauge);
  }
  if (from.kind != MetricKind::gauge) its.add_enum(series::temporality, cumulative);
  if (from.kind == MetricKind::counter) its.add_bool(series::is_monotonic, true);
  its.commit();
  return encoded;
}

/// How many values a total is of.
Metric count_of(const Metric& total) {
  Metric counter{MetricKind::counter, total.name + ".count", {}, "1", total.description, {}};
  for (const Point& point : total.points) {
    Point count;
    count.attributes = point.attributes;
    count.value = static_cast<std::int64_t>(point.count);
    counter.points.push_back(std::move(count));
  }
  return counter;
}

}  // namespace

void PowerBuckets::add(std::int32_t index, std::uint64_t count) {
  if (counts.empty()) offset = index;
  if (index < offset) {
    counts.insert(counts.begin(), static_cast<std::size_t>(offset - index), 0);
    offset = index;
  }
  const auto at = static_cast<std::size_t>(index - offset);
  if (at >= counts.size()) counts.resize(at + 1);
  counts[at] += count;
}

Metric plain_metric(MetricKind kind, std::string_view name, std::uint64_t value,
                    std::string_view description, std::string_view unit) {
  std::string dotted(name);
  std::ranges::replace(dotted, '_', '.');
  Metric metric{kind, dotted, std::string(name), std::string(unit), std::string(description), {}};
  Point point;
  point.value = static_cast<std::int64_t>(
      std::min<std::uint64_t>(value, std::numeric_limits<std::int64_t>::max()));
  point.text = std::to_string(value);
  metric.points.push_back(std::move(point));
  return metric;
}

void merge(std::vector<Metric>& into, std::vector<Metric> more) {
  for (Metric& metric : more) {
    const auto known = std::ranges::find(into, metric.name, &Metric::name);
    if (known == into.end()) {
      into.push_back(std::move(metric));
      continue;
    }
    std::ranges::move(metric.points, std::back_inserter(known->points));
    for (std::string& key : metric.keys)
      if (std::ranges::find(known->keys, key) == known->keys.end())
        known->keys.push_back(std::move(key));
  }
}

void add_metrics(const std::vector<Metric>& metrics, const Interval& interval,
                 const std::string& resource, Requests& requests) {
  std::vector<Metric> counts;
  for (const Metric& metric : metrics)
    if (metric.kind == MetricKind::total) counts.push_back(count_of(metric));
  if (!counts.empty()) add_metrics(counts, interval, resource, requests);
  for (const Metric& metric : metrics)
    for (std::size_t at = 0; at < metric.points.size();)
      requests.add(resource, encode(metric, at, interval));
}

}  // namespace vitrine::telemetry
