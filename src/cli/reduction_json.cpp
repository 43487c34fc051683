#include "cli/reduction_json.hpp"

#include <algorithm>

#include "base/utf8.hpp"
#include "cli/text.hpp"
#include "cli/value_json.hpp"

namespace vitrine::cli {
namespace {

using query::ReductionKind;
using query::ReductionRow;
using query::ReductionTable;

std::string_view name(ReductionKind kind) {
  switch (kind) {
    case ReductionKind::count:
      return "count";
    case ReductionKind::sum:
      return "sum";
    case ReductionKind::histogram:
      return "hist";
    case ReductionKind::latency:
      return "latency";
  }
  return "";
}

/// Names of members must be UTF-8.
std::string member(const std::string& title) {
  return is_utf8(title) ? title : printable(title);
}

Json json_or_null(const std::optional<query::Number>& number) {
  return number ? json_number(*number) : Json();
}

void add_histogram(Json& object, const ReductionRow& row) {
  object["p50"] = query::percentile(row, 0.5);
  object["p90"] = query::percentile(row, 0.9);
  object["p99"] = query::percentile(row, 0.99);
  Json& buckets = object["buckets"] = Json::array();
  for (const query::Histogram::Bucket& bucket : row.histogram.buckets()) {
    const query::BucketRange range = query::range_of(bucket.index);
    buckets.push_back({json_number(range.low), json_number(range.high), bucket.count});
  }
}

Json row_to_json(const ReductionTable& table, const ReductionRow& row) {
  Json object;
  if (&row == &table.others) {
    object["others"] = true;
  } else {
    object["probe"] = json_bytes(row.probe);
  }
  object["reduction"] = name(table.kind);
  if (!table.value.empty()) object["value"] = json_bytes(table.value);
  Json& by = object["by"] = Json::object();
  for (std::size_t i = 0; i < std::min(table.by.size(), row.keys.size()); ++i)
    by[member(table.by[i])] = row.keys[i] ? json_value(*row.keys[i]) : Json();
  object["count"] = row.count;
  if (table.kind == ReductionKind::count) return object;
  object["sum"] = json_number(row.sum);
  object["min"] = json_or_null(row.least);
  object["max"] = json_or_null(row.greatest);
  if (table.kind != ReductionKind::sum) add_histogram(object, row);
  return object;
}

}  // namespace

std::vector<Json> to_json(const ReductionTable& table) {
  std::vector<Json> objects;
  for (const ReductionRow& row : table.rows) objects.push_back(row_to_json(table, row));
  if (table.others.count > 0) objects.push_back(row_to_json(table, table.others));
  Json left_out = Json::object();
  const auto add = [&](const char* what, std::uint64_t count) {
    if (count > 0) left_out[what] = count;
  };
  add("unread", table.unread);
  add("without_start", table.without_start);
  add("without_end", table.without_end);
  add("lost", table.lost);
  if (!left_out.empty()) objects.push_back(std::move(left_out));
  return objects;
}

}  // namespace vitrine::cli
