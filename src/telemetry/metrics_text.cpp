// Metrics as text: https://prometheus.io/docs/instrumenting/exposition_formats (0.0.4) and
// OpenMetrics 1.0.
#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <limits>
#include <string_view>

#include "base/text.hpp"
#include "telemetry/metrics.hpp"

namespace vitrine::telemetry {
namespace {

/// Letters, digits and underscores; the first is no digit, and two underscores at the start are
/// Prometheus's own.
std::string label_name(std::string_view key) {
  std::string name;
  for (const char c : key) {
    const bool is_digit = c >= '0' && c <= '9';
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (is_digit && name.empty()) name += '_';
    name += is_digit || is_letter ? c : '_';
  }
  if (name.empty()) name = "_";
  if (name.starts_with("__")) name.insert(0, "by");
  return name;
}

void append_label(std::string_view name, std::string_view value, std::string& labels) {
  if (!labels.empty()) labels += ',';
  labels += name;
  labels += "=\"";
  for (const char c : is_utf8(value) ? std::string(value) : replaced_utf8(value)) {
    if (c == '\n') {
      labels += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') labels += '\\';
    labels += c;
  }
  labels += '"';
}

/// The names of labels, which differ for all keys of a metric, whichever of them a point has.
class LabelNames {
 public:
  explicit LabelNames(const Metric& metric) {
    for (const std::string& key : metric.keys) add(key);
    for (const Point& point : metric.points)
      for (const Attribute& one : point.attributes) add(one.key);
  }

  [[nodiscard]] std::string labels(const Point& point) const {
    std::string labels;
    for (const Attribute& one : point.attributes)
      if (const auto* text = std::get_if<std::string>(&one.value))
        append_label(names_.find(one.key)->second, *text, labels);
    return labels;
  }

 private:
  void add(const std::string& key) {
    if (!names_.contains(key)) names_.emplace(key, distinct_.add(label_name(key)));
  }

  DistinctNames distinct_{"le", "quantile"};  // of histograms and summaries
  std::unordered_map<std::string, std::string> names_;
};

std::string in_braces(std::string_view labels, std::string_view more = {}) {
  if (labels.empty() && more.empty()) return {};
  return fmt::format("{{{}{}{}}}", labels, labels.empty() || more.empty() ? "" : ",", more);
}

double number_of(std::string_view text) {
  double number = std::numeric_limits<double>::infinity();
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// As both formats spell it: to their readers one "-nan" makes the whole page invalid.
std::string_view spelled(std::string_view number) {
  if (number.ends_with("nan")) return "NaN";
  if (number == "inf") return "+Inf";
  if (number == "-inf") return "-Inf";
  return number;
}

/// Whether OpenMetrics has no sum of these values: there it is a counter, neither negative nor beside
/// buckets of negative values.
bool may_shrink(const Point& point) {
  return !(number_of(point.text) >= 0) ||
         (!point.ends.empty() && point.ends.front().le.starts_with('-'));
}

class TextWriter {
 public:
  explicit TextWriter(bool open) : open_(open) {}

  std::string all(const std::vector<Metric>& metrics) {
    for (const Metric& metric : metrics) add(metric);
    if (open_) out_ += "# EOF\n";
    return std::move(out_);
  }

 private:
  void add(const Metric& metric) {
    const bool is_counter = metric.kind == MetricKind::counter;
    const std::string counted = metric.text_name + (is_counter ? "_total" : "");
    format("# HELP {0} {1}\n# TYPE {0} {2}\n", open_ ? metric.text_name : counted,
           metric.description, type_of(metric.kind));
    const LabelNames names(metric);
    for (const Point& point : metric.points) {
      const std::string labels = names.labels(point);
      switch (metric.kind) {
        case MetricKind::counter:
        case MetricKind::gauge:
          format("{}{} {}", counted, in_braces(labels), spelled(point.text));
          end_line(point, is_counter);
          break;
        case MetricKind::histogram:
          add_buckets(metric, point, labels);
          [[fallthrough]];
        case MetricKind::total:
          if (!open_ || !may_shrink(point))
            format("{}_sum{} {}\n", metric.text_name, in_braces(labels), spelled(point.text));
          format("{}_count{} {}\n", metric.text_name, in_braces(labels), point.count);
      }
    }
  }

  void add_buckets(const Metric& metric, const Point& point, const std::string& labels) {
    const double value = point.exemplar ? number_of(point.exemplar->text) : 0;
    bool shown = !point.exemplar;
    const auto add = [&](std::string_view le, std::uint64_t count) {
      format("{}_bucket{} {}", metric.text_name, in_braces(labels, fmt::format("le=\"{}\"", le)),
             count);
      const bool here = !shown && (le == "+Inf" || value <= number_of(le));
      shown = shown || here;
      end_line(point, here);
    };
    for (const Point::End& end : point.ends) add(end.le, end.count);
    add("+Inf", point.count);
  }

  void end_line(const Point& point, bool with_exemplar) {
    if (open_ && with_exemplar && point.exemplar) {
      const Exemplar& its = *point.exemplar;
      format(" # {{trace_id=\"{}\",span_id=\"{}\"}} {} {}.{:09}", hex_text(its.trace.trace_id),
             hex_text(its.trace.span_id), spelled(its.text), its.time_ns / 1'000'000'000,
             its.time_ns % 1'000'000'000);
    }
    out_ += '\n';
  }

  static std::string_view type_of(MetricKind kind) {
    switch (kind) {
      case MetricKind::counter:
        return "counter";
      case MetricKind::total:
        return "summary";
      case MetricKind::gauge:
        return "gauge";
      case MetricKind::histogram:
        break;
    }
    return "histogram";
  }

  template <class... Arguments>
  void format(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(out_), text, std::forward<Arguments>(arguments)...);
  }

  bool open_;
  std::string out_;
};

}  // namespace

std::string DistinctNames::add(const std::string& name) {
  std::string distinct = taken_.contains(name) ? "by_" + name : name;
  for (int i = 2; taken_.contains(distinct); ++i) distinct = fmt::format("by_{}_{}", name, i);
  taken_.insert(distinct);
  return distinct;
}

std::string prometheus_text(const std::vector<Metric>& metrics) {
  return TextWriter(false).all(metrics);
}

std::string openmetrics_text(const std::vector<Metric>& metrics) {
  return TextWriter(true).all(metrics);
}

namespace {

constexpr std::string_view prometheus_ending = ".prom", openmetrics_ending = ".openmetrics";

}  // namespace

bool is_text_file(std::string_view path) {
  return path.ends_with(prometheus_ending) || path.ends_with(openmetrics_ending);
}

std::string text_of_file(std::string_view path, const std::vector<Metric>& metrics) {
  return path.ends_with(openmetrics_ending) ? openmetrics_text(metrics) : prometheus_text(metrics);
}

}  // namespace vitrine::telemetry
