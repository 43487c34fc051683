#include "cli/trace/reduction.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "cli/output/json.hpp"
#include "cli/output/text.hpp"
#include "cli/trace/reduction_text.hpp"

namespace vitrine::cli {

void ReductionOptions::define(CLI::App& app) {
  auto* count = app.add_flag("--count", count_, "Count fires instead of showing them");
  auto* histogram =
      app.add_option("--hist", histogram_, "Show a histogram of this argument: --hist arg1")
          ->option_text("ARG");
  auto* sum =
      app.add_option("--sum", sum_, "Show sum, average, minimum and maximum of this argument")
          ->option_text("ARG");
  auto* latency =
      app.add_option(
             "--latency", latency_,
             "Measure the time from one probe to the next on the same thread: START,END; or "
             "that of the calls of a function: func:MODULE:FUNCTION")
          ->option_text("START,END");
  auto* spans = app.add_option("--spans", spans_,
                               "Show each pair of these probes, or calls of this function, "
                               "however long it took; with --export as spans")
                    ->option_text("START,END");
  for (auto* other : {count, histogram, sum, latency}) spans->excludes(other);
  count->excludes(histogram)->excludes(sum)->excludes(latency);
  histogram->excludes(sum)->excludes(latency);
  sum->excludes(latency);
  app.add_option(
         "--match", match_,
         "With --latency or --spans: match a start to the end with the same argument, on any "
         "thread")
      ->option_text("ARG");
  app.add_option("--by", by_, "Show one row for each value of these labels and arguments")
      ->option_text("ITEM,...");
}

Result<std::optional<query::ReductionQuery>> ReductionOptions::take() const {
  query::ReductionQuery query;
  if (!match_.empty()) {
    if (latency_.empty() && spans_.empty())
      return fail(ErrorCode::usage, "--match requires --latency or --spans",
                  "see `vitrine trace --help`");
    query.match = TRY_WHILE("--match", query::parse_item(match_));
  }
  if (!histogram_.empty() || !sum_.empty()) {
    const bool is_sum = histogram_.empty();
    query.kind = is_sum ? query::ReductionKind::sum : query::ReductionKind::histogram;
    query.value =
        TRY_WHILE(is_sum ? "--sum" : "--hist", query::parse_item(is_sum ? sum_ : histogram_));
  } else if (!latency_.empty()) {
    TRY_WHILE("--latency", query::parse_latency(latency_, query));
  } else if (!spans_.empty()) {
    TRY_WHILE("--spans", query::parse_latency(spans_, query));
  } else if (!count_) {
    if (by_.empty()) return std::nullopt;
    return fail(ErrorCode::usage, "--by requires an aggregation",
                "add --count, --sum ARG, --hist ARG or --latency START,END");
  }
  if (!by_.empty()) {
    query.by = TRY_WHILE("--by", query::parse_items(by_));
  }
  return query;
}

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

/// Of a text in a key, of which the row has a part.
bool is_truncated(const query::Key& key) {
  const auto* text = key ? std::get_if<probe::StringValue>(&*key) : nullptr;
  return text != nullptr && text->truncated;
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
  Json by = Json::object();
  Json truncated = Json::array();
  for (std::size_t i = 0; i < std::min(table.by.size(), row.keys.size()); ++i) {
    const std::string title = member(table.by[i]);
    by[title] = row.keys[i] ? json_value(*row.keys[i]) : Json();
    if (is_truncated(row.keys[i]))
      truncated.push_back(
          {{"what", "by"}, {"detail", title + ": rows differ in its first bytes alone"}});
  }
  object["by"] = std::move(by);
  if (!truncated.empty()) object["truncated"] = std::move(truncated);
  object["count"] = row.count;
  if (table.kind == ReductionKind::count) return object;
  const auto sum = row.sum.number();
  object["sum"] = sum ? json_number(*sum) : Json(row.sum.text());
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
  add("cut_texts", table.cut_texts);
  add("without_text", table.without_text);
  if (!left_out.empty()) objects.push_back(std::move(left_out));
  return objects;
}

namespace {

constexpr std::chrono::milliseconds usual_refresh{1000};

}  // namespace

ReductionView::ReductionView(bool json, std::optional<std::chrono::milliseconds> interval)
    : json_(json),
      everywhere_(interval.has_value()),
      interval_(interval.value_or(usual_refresh)),
      terminal_(::isatty(STDOUT_FILENO) == 1),
      style_(Style::of_stdout()),
      next_(std::chrono::steady_clock::now() + interval_) {}

bool ReductionView::is_due() const {
  return (everywhere_ || (terminal_ && !json_)) && std::chrono::steady_clock::now() >= next_;
}

std::string ReductionView::text(const query::ReductionTable& table, std::size_t max_rows,
                                bool continues) const {
  return reduction_text(table, style_,
                        {.utf8 = shows_utf8(),
                         .columns = terminal_size().columns,
                         .max_rows = max_rows,
                         .continues = continues});
}

/// As NDJSON, or where no terminal is, so that tables follow each other.
bool ReductionView::print(const query::ReductionTable& table) {
  if (!json_) {
    const std::string shown = text(table, table.rows.size(), false) + '\n';
    return write_output(shown) && flush_output();
  }
  auto objects = to_json(table);
  const std::string time = std::to_string(unix_time_ns());
  return std::all_of(objects.begin(), objects.end(), [&](Json& object) {
    object["ts_ns"] = time;
    return print_json(object);
  });
}

bool ReductionView::refresh(const query::ReductionTable& table) {
  next_ = std::chrono::steady_clock::now() + interval_;
  if (json_ || !terminal_) return print(table);
  // A head line and some remarks beside the rows; histograms are cut by the terminal's height.
  const std::size_t lines = terminal_size().lines;
  return live_.show(text(table, std::max<std::size_t>(lines, 8) - 6, true));
}

bool ReductionView::finish(const query::ReductionTable& table) {
  if (json_ && everywhere_) return print(table);
  if (!json_) return live_.finish(text(table, table.rows.size(), false));
  const auto objects = to_json(table);
  return std::all_of(objects.begin(), objects.end(),
                     [](const Json& object) { return print_json(object); });
}

}  // namespace vitrine::cli
