// Reductions of a trace: their options, NDJSON, and the table that refreshes.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/output/json.hpp"
#include "cli/output/live.hpp"
#include "cli/output/text.hpp"
#include "query/reduction.hpp"

namespace vitrine::cli {

// The options of vitrine trace that add fires up instead of showing them.

class ReductionOptions {
 public:
  void define(CLI::App& app);

  /// What is asked for; nothing when fires are shown one by one. Errors: usage, which names
  /// the option.
  Result<std::optional<query::ReductionQuery>> take() const;
  /// Whether the pair of what is asked for is not to be added up.
  [[nodiscard]] bool is_spans() const { return !spans_.empty(); }

 private:
  bool count_ = false;
  std::string histogram_;
  std::string sum_;
  std::string latency_;
  std::string spans_;
  std::string match_;
  std::string by_;
};

// Reductions as NDJSON.

/// One object a row: {"probe","reduction":"count|sum|hist|latency","by":{…},"count"}, and of all but
/// counts "sum","min","max" (null: not known), of hist and latency "p50","p90","p99" and
/// "buckets":[[low,high,count]…], both ends among the values. Latencies are in nanoseconds. In
/// "by", a label that is not set is null; "truncated" has an entry for each of "by" that is longer than
/// what is kept of it. The row of groups past the limit has "others":true and no "probe". Then, if anything was left out, {"unread","without_start","without_end","lost","cut_texts","without_text"}.
std::vector<Json> to_json(const query::ReductionTable& table);

// What was added up so far: again and again on a terminal, and once at the end.

class ReductionView {
 public:
  /// `interval`: between two tables, on any output; nothing: each second, on a terminal alone.
  ReductionView(bool json, std::optional<std::chrono::milliseconds> interval);

  /// Whether a table is wanted now: the last one is old enough.
  bool is_due() const;

  /// False when the output has no reader.
  [[nodiscard]] bool refresh(const query::ReductionTable& table);
  [[nodiscard]] bool finish(const query::ReductionTable& table);

  /// Something else was printed on the terminal: the next table goes below it.
  void leave_as_is() { live_.leave(); }

 private:
  std::string text(const query::ReductionTable& table, std::size_t max_rows, bool continues) const;
  bool print(const query::ReductionTable& table);

  bool json_;
  bool everywhere_;
  std::chrono::milliseconds interval_;
  bool terminal_;
  Style style_;
  LiveText live_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace vitrine::cli
