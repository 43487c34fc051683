// Reductions as NDJSON.
#pragma once

#include <vector>

#include "cli/json.hpp"
#include "query/reduction.hpp"

namespace vitrine::cli {

/// One object a row: {"probe","reduction":"count|sum|hist|latency","by":{…},"count"}, and of all but
/// counts "sum","min","max" (null: not known), of hist and latency "p50","p90","p99" and
/// "buckets":[[low,high,count]…], both ends among the values. Latencies are in nanoseconds. In
/// "by", a label that is not set is null. The row of groups past the limit has "others":true and no
/// "probe". Then, if anything was left out, {"unread","without_start","without_end","lost"}.
std::vector<Json> to_json(const query::ReductionTable& table);

}  // namespace vitrine::cli
