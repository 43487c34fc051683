#include "cli/trace/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/text.hpp"
#include "cli/output/text.hpp"
#include "cli/trace/output.hpp"
#include "query/buckets.h"

namespace vitrine::cli {
namespace {

using query::ReductionKind;
using query::ReductionRow;
using query::ReductionTable;

constexpr std::string_view other = "__other__";
// Ends of buckets of latencies, as exponents of two: a microsecond to a minute. A series that is
// there from the start has a rate from its first value on.
constexpr int shortest_latency = 10;
constexpr int longest_latency = 36;
constexpr int largest_exponent = 64;  // of 64 bits

/// Letters, digits and underscores; the first is no digit, and two underscores at the start are
/// Prometheus's own.
std::string label_name(std::string_view title) {
  std::string name;
  for (const char c : title) {
    const bool is_digit = c >= '0' && c <= '9';
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (is_digit && name.empty()) name += '_';
    name += is_digit || is_letter ? c : '_';
  }
  if (name.empty()) name = "_";
  if (name.starts_with("__")) name.insert(0, "by");
  return name;
}

/// Of the columns of --by, each of its own: probe, value and le are names of ours.
std::vector<std::string> label_names(const std::vector<std::string>& titles) {
  std::set<std::string> taken{"probe", "value", "le"};
  std::vector<std::string> names;
  for (const std::string& title : titles) {
    const std::string name = label_name(title);
    std::string its = taken.contains(name) ? "by_" + name : name;
    for (int i = 2; taken.contains(its); ++i) its = fmt::format("by_{}_{}", name, i);
    taken.insert(its);
    names.push_back(std::move(its));
  }
  return names;
}

void append_label(std::string_view name, std::string_view value, std::string& labels) {
  if (!labels.empty()) labels += ',';
  labels += name;
  labels += "=\"";
  const std::string shown = is_utf8(value) ? std::string(value) : printable(value);
  for (const char c : shown) {
    if (c == '\n') {
      labels += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') labels += '\\';
    labels += c;
  }
  labels += '"';
}

std::string key_value(const query::Key& key, query::Format format, std::uint8_t width) {
  if (const auto* text = std::get_if<probe::StringValue>(&*key);
      text != nullptr && format == query::Format::plain)
    return text->text;
  return value_text(*key, format, width);
}

class Labels {
 public:
  explicit Labels(const ReductionTable& table) : table_(table), names_(label_names(table.by)) {}

  [[nodiscard]] std::string of(const ReductionRow& row) const {
    std::string labels = start(row.probe);
    for (std::size_t i = 0; i < std::min(names_.size(), row.keys.size()); ++i)
      if (row.keys[i])
        append_label(names_[i], key_value(row.keys[i], format(i), width(row, i)), labels);
    return labels;
  }

  [[nodiscard]] std::string of_others() const {
    std::string labels = start(other);
    for (const std::string& name : names_) append_label(name, other, labels);
    return labels;
  }

 private:
  [[nodiscard]] std::string start(std::string_view probe) const {
    std::string labels;
    append_label("probe", probe, labels);
    if (!table_.value.empty()) append_label("value", table_.value, labels);
    return labels;
  }
  [[nodiscard]] query::Format format(std::size_t column) const {
    return column < table_.by_formats.size() ? table_.by_formats[column] : query::Format::plain;
  }
  static std::uint8_t width(const ReductionRow& row, std::size_t column) {
    return column < row.widths.size() ? row.widths[column] : std::uint8_t{8};
  }

  const ReductionTable& table_;
  std::vector<std::string> names_;
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

void append_histogram(std::string_view metric, const std::string& labels, const ReductionRow& row,
                      const std::vector<End>& ends, std::string& out) {
  auto bucket = row.histogram.buckets().begin();
  const auto all = row.histogram.buckets().end();
  std::uint64_t count = 0;
  for (const End& end : ends) {
    for (; bucket != all && bucket->index <= end.bucket; ++bucket) count += bucket->count;
    fmt::format_to(std::back_inserter(out), "{}_bucket{{{},le=\"{}\"}} {}\n", metric, labels,
                   end.le, count);
  }
  fmt::format_to(std::back_inserter(out), "{}_bucket{{{},le=\"+Inf\"}} {}\n", metric, labels,
                 row.histogram.count());
}

struct Metric {
  std::string_view name;
  std::string_view type;
  std::string_view help;
};

Metric metric_of(ReductionKind kind) {
  switch (kind) {
    case ReductionKind::sum:
      return {"vitrine_probe_value", "summary", "Values of an argument of a probe."};
    case ReductionKind::histogram:
      return {"vitrine_probe_value", "histogram", "Values of an argument of a probe."};
    case ReductionKind::latency:
      return {"vitrine_probe_latency_seconds", "histogram", "Time from one probe to the next."};
    case ReductionKind::count:
      break;
  }
  return {"vitrine_probe_fires_total", "counter", "Fires of a probe."};
}

void append_head(const Metric& metric, std::string& out) {
  fmt::format_to(std::back_inserter(out), "# HELP {0} {1}\n# TYPE {0} {2}\n", metric.name,
                 metric.help, metric.type);
}

void append_metric(const Metric& metric, std::uint64_t value, std::string& out) {
  append_head(metric, out);
  fmt::format_to(std::back_inserter(out), "{} {}\n", metric.name, value);
}

std::string sum_text(const query::Sum& sum, ReductionKind kind) {
  return kind == ReductionKind::latency ? fmt::format("{}", sum.to_double() / 1e9) : sum.text();
}

}  // namespace

std::string ReductionMetrics::text(const ReductionTable& table) {
  const Labels labels(table);
  std::map<std::string, ReductionRow> shown;
  std::size_t folded = 0;
  const auto show = [&](const std::string& its, const ReductionRow& row) {
    if (const auto [known, is_new] = shown.try_emplace(its, row); !is_new)
      merge(known->second, row);
  };
  for (const ReductionRow& row : table.rows) {
    const std::string its = labels.of(row);
    if (groups_.size() < max_groups_) groups_.insert(its);
    const bool has_series = groups_.contains(its);
    if (!has_series) ++folded;
    show(has_series ? its : labels.of_others(), row);
  }
  if (table.others.count > 0) show(labels.of_others(), table.others);

  const Metric metric = metric_of(table.kind);
  std::string out;
  append_head(metric, out);
  const auto ends = table.kind == ReductionKind::latency     ? latency_ends()
                    : table.kind == ReductionKind::histogram ? value_ends(table)
                                                             : std::vector<End>();
  for (const auto& [its, row] : shown) {
    if (table.kind == ReductionKind::count) {
      fmt::format_to(std::back_inserter(out), "{}{{{}}} {}\n", metric.name, its, row.count);
      continue;
    }
    if (!ends.empty()) append_histogram(metric.name, its, row, ends, out);
    fmt::format_to(std::back_inserter(out), "{0}_sum{{{1}}} {2}\n{0}_count{{{1}}} {3}\n",
                   metric.name, its, sum_text(row.sum, table.kind), row.count);
  }
  append_metric({"vitrine_trace_lost_total", "counter", "Fires that could not be added up."},
                table.lost, out);
  append_metric({"vitrine_trace_unread_total", "counter", "Fires whose value could not be read."},
                table.unread, out);
  append_metric({"vitrine_trace_unpaired_total", "counter", "Starts and ends without the other."},
                table.without_start + table.without_end, out);
  append_metric({"vitrine_trace_folded_groups", "gauge",
                 "Groups without series of their own, which are in __other__."},
                folded, out);
  return out;
}

}  // namespace vitrine::cli
