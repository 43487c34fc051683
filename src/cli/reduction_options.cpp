#include "cli/reduction_options.hpp"

namespace vitrine::cli {
namespace {

/// Takes a value apart, naming its option when it makes no sense.
template <class T>
Result<T> of_option(std::string_view option, Result<T> taken) {
  if (!taken) return fail_while(std::string(option), std::move(taken.error()));
  return taken;
}

}  // namespace

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
    auto value =
        of_option(is_sum ? "--sum" : "--hist", query::parse_item(is_sum ? sum_ : histogram_));
    if (!value) return tl::unexpected(value.error());
    query.value = std::move(*value);
  } else if (!latency_.empty()) {
    auto taken = of_option("--latency", query::parse_latency(latency_, query));
    if (!taken) return tl::unexpected(taken.error());
  } else if (!count_) {
    if (by_.empty()) return std::nullopt;
    return fail(ErrorCode::usage, "--by requires an aggregation",
                "add --count, --sum ARG, --hist ARG or --latency START,END");
  }
  if (!match_.empty()) {
    auto match = of_option("--match", query::parse_item(match_));
    if (!match) return tl::unexpected(match.error());
    query.match = std::move(*match);
  }
  if (!by_.empty()) {
    auto by = of_option("--by", query::parse_items(by_));
    if (!by) return tl::unexpected(by.error());
    query.by = std::move(*by);
  }
  return query;
}

}  // namespace vitrine::cli
