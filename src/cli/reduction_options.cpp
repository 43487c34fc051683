#include "cli/reduction_options.hpp"

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
      app.add_option("--latency", latency_,
                     "Measure the time from one probe to the next on the same thread: START,END")
          ->option_text("START,END");
  count->excludes(histogram)->excludes(sum)->excludes(latency);
  histogram->excludes(sum)->excludes(latency);
  sum->excludes(latency);
  app.add_option("--match", match_,
                 "With --latency: match a start to the end with the same argument, on any thread")
      ->option_text("ARG")
      ->needs(latency);
  app.add_option("--by", by_, "Show one row for each value of these labels and arguments")
      ->option_text("ITEM,...");
}

Result<std::optional<query::ReductionQuery>> ReductionOptions::take() const {
  query::ReductionQuery query;
  if (!histogram_.empty() || !sum_.empty()) {
    const bool is_sum = histogram_.empty();
    query.kind = is_sum ? query::ReductionKind::sum : query::ReductionKind::histogram;
    query.value =
        TRY_WHILE(is_sum ? "--sum" : "--hist", query::parse_item(is_sum ? sum_ : histogram_));
  } else if (!latency_.empty()) {
    TRY_WHILE("--latency", query::parse_latency(latency_, query));
  } else if (!count_) {
    if (by_.empty()) return std::nullopt;
    return fail(ErrorCode::usage, "--by requires an aggregation",
                "add --count, --sum ARG, --hist ARG or --latency START,END");
  }
  if (!match_.empty()) {
    query.match = TRY_WHILE("--match", query::parse_item(match_));
  }
  if (!by_.empty()) {
    query.by = TRY_WHILE("--by", query::parse_items(by_));
  }
  return query;
}

}  // namespace vitrine::cli
