// Metrics: values that both OTLP (metrics.proto of opentelemetry-proto 1.11.0) and the text formats
// of Prometheus are written from.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "telemetry/attributes.hpp"
#include "telemetry/requests.hpp"

namespace vitrine::telemetry {

/// One measurement, and the span it was made in.
struct Exemplar {
  std::uint64_t time_ns = 0;  ///< Unix time
  Amount value;
  std::string text;  ///< the value, in the unit of the text formats
  TraceContext trace;
};

/// Buckets of scale 0, each a power of two: bucket i has values above 2^i, up to 2^(i + 1).
struct PowerBuckets {
  std::int32_t offset = 0;
  std::vector<std::uint64_t> counts;
  /// Adds to the bucket `index`.
  void add(std::int32_t index, std::uint64_t count);
};

struct Point {
  Attributes attributes;  ///< all texts
  Amount value;           ///< of a histogram: the sum
  std::string text;       ///< the value, in the unit of the text formats
  std::optional<Exemplar> exemplar;

  // Of histograms and summaries:
  std::uint64_t count = 0;
  std::optional<double> least, greatest;
  std::uint64_t zeros = 0;
  PowerBuckets positive, negative;
  /// Of histograms in text formats: what each bucket ends with, and how many values are within it.
  struct End {
    std::string le;
    std::uint64_t count = 0;
  };
  std::vector<End> ends;
};

enum class MetricKind : std::uint8_t {
  counter,    ///< cumulative, never shrinks
  total,      ///< cumulative, may shrink; a summary without quantiles in text formats
  gauge,      ///< as it is now
  histogram,  ///< cumulative
};

struct Metric {
  MetricKind kind = MetricKind::counter;
  std::string name;         ///< of OTLP: "vitrine.probe.fires"
  std::string text_name;    ///< of text formats, without _total
  std::string unit;         ///< of OTLP (UCUM)
  std::string description;  ///< a sentence
  std::vector<Point> points;
  /// Keys of attributes, in the order in which labels of text formats are named, whether or not a
  /// point has them: a name stays the same while points come and go.
  std::vector<std::string> keys{};
};

/// A number without labels. `name`: of text formats; in OTLP it has dots for underscores.
Metric plain_metric(MetricKind kind, std::string_view name, std::uint64_t value,
                    std::string_view description, std::string_view unit = "1");

/// Puts the points of metrics with one name into one, as text formats ask for.
void merge(std::vector<Metric>& into, std::vector<Metric> more);

/// From when and until when cumulative metrics count (Unix time).
struct Interval {
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
};

/// Adds messages `Metric` to `requests`, none with so many points that a request could not hold it.
void add_metrics(const std::vector<Metric>& metrics, const Interval& interval,
                 const std::string& resource, Requests& requests);

/// Names that differ from each other.
class DistinctNames {
 public:
  /// Those that are taken from the start.
  DistinctNames(std::initializer_list<std::string> taken) : taken_(taken) {}

  /// `name`; where that is taken, by_NAME, or by_NAME_2 and so on.
  std::string add(const std::string& name);

 private:
  std::set<std::string> taken_;
};

/// The text format 0.0.4 of Prometheus, as the textfile collector of its node exporter reads it.
std::string prometheus_text(const std::vector<Metric>& metrics);
/// OpenMetrics 1.0, which has exemplars.
std::string openmetrics_text(const std::vector<Metric>& metrics);
/// Whether a file of this name has one of these formats: FILE.prom, or FILE.openmetrics.
bool is_text_file(std::string_view path);
/// In the format of that file.
std::string text_of_file(std::string_view path, const std::vector<Metric>& metrics);

}  // namespace vitrine::telemetry
