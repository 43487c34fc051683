#include "cli/trace/query_options.hpp"

#include "base/limits.hpp"
#include "cli/shell/options.hpp"

namespace vitrine::cli {
namespace {

constexpr std::size_t max_string_bytes = 4096;

}  // namespace

void TraceQueryOptions::define(CLI::App& app) {
  where_given_ =
      app.add_option("--where", where_, "Show only fires that match")->option_text("CONDITION");
  app.add_option("--show", show_, "Show these items instead of all arguments")
      ->option_text("ITEM,...");
  reduction_.define(app);
  add_parsed(app, "--slower", slower_, parse_short_duration,
             "With --latency: show each pair that took longer")
      ->option_text("TIME");
  app.add_flag("--exemplars", exemplars_,
               "With --export or -o: keep the trace ID of the last fire in each group. Every fire "
               "then costs an event");
  app.add_option(
         "--label-values", label_values_,
         "With --export or -o: number of values of each key of --by that have series of their "
         "own; the rest is __other__ (1000, the limit of all series)")
      ->check(CLI::Range(std::size_t{1}, limits::metric_groups))
      ->option_text("N");
  app.add_flag("--stack", stacks_, "Show the functions on the stack of the thread");
  app.add_option("--max-string", string_bytes_,
                 "Maximum number of bytes of a string (256, at most 4096)")
      ->check(CLI::Range(std::size_t{1}, max_string_bytes))
      ->option_text("BYTES");
}

std::size_t TraceQueryOptions::label_values() const {
  return label_values_ == 0 ? limits::metric_groups : label_values_;
}

Result<observe::TraceQuery> TraceQueryOptions::take(bool is_measured, Redaction redaction) const {
  observe::TraceQuery query;
  query.redaction = std::move(redaction);
  query.string_bytes = string_bytes_;
  if (where_given_->count() != 0 && where_.find_first_not_of(" \t\n") == std::string::npos)
    return fail(ErrorCode::usage, "--where: the condition is empty",
                "omit --where to show all fires");
  if (!where_.empty()) query.where = TRY(query::Expression::parse(where_));
  if (!show_.empty()) query.show = TRY(query::parse_items(show_));
  query.reduction = TRY(reduction_.take());
  if (slower_) TRY(take_slower(query));
  if (is_spans()) TRY(take_spans(query));
  const bool is_measure = adds_up(query) && is_measured;
  if (exemplars_ && !is_measure)
    return fail(
        ErrorCode::usage, "--exemplars requires an aggregation, and --export or -o",
        "add --export otlp+http://HOST:4318 and --count, --hist ARG or --latency START,END");
  if (exemplars_) query.reduction->exemplars = true;
  if (label_values_ != 0 && !is_measured)
    return fail(ErrorCode::usage, "--label-values requires --export or -o",
                "add --export otlp+http://HOST:4318 or -o FILE.prom");
  if (adds_up(query) && (!show_.empty() || stacks_))
    return fail(ErrorCode::usage, "--show and --stack apply to single fires",
                "omit them, or omit the aggregation");
  return query;
}

/// Pairs, however fast they are.
Result<void> TraceQueryOptions::take_spans(observe::TraceQuery& query) {
  if (query.slower || !query.reduction->by.empty())
    return fail(ErrorCode::usage, "--spans takes every pair, with its labels",
                "omit --slower and --by, or use --latency");
  query.slower = std::chrono::nanoseconds(0);
  return {};
}

Result<void> TraceQueryOptions::take_slower(observe::TraceQuery& query) const {
  query.slower = slower_;
  const auto& pair = query.reduction;
  if (pair && pair->kind == query::ReductionKind::latency && !pair->by.empty())
    return fail(ErrorCode::usage, "--by groups latencies, and --slower shows each pair",
                "omit --slower for a table, or --by: each pair is shown with its labels");
  return {};
}

exporter::Signal signal_of(const observe::TraceQuery& query) {
  if (adds_up(query)) return exporter::Signal::metrics;
  return query.slower ? exporter::Signal::traces : exporter::Signal::logs;
}

}  // namespace vitrine::cli
