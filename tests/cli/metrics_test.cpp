// Reductions as metrics for Prometheus.
#include "cli/trace/metrics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "query/buckets.h"

namespace vitrine::cli {
namespace {

using query::ReductionKind;
using query::ReductionRow;
using query::ReductionTable;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

query::Key text_key(std::string value) {
  return probe::Value(probe::StringValue{std::move(value), false});
}

ReductionTable counts_by_tenant(const std::vector<std::pair<query::Key, std::uint64_t>>& counts) {
  ReductionTable table;
  table.by = {"tenant"};
  for (const auto& [key, count] : counts) {
    ReductionRow row;
    row.probe = "shop:order";
    row.keys = {key};
    row.count = count;
    table.rows.push_back(std::move(row));
  }
  return table;
}

ReductionTable values(ReductionKind kind, const std::vector<query::Number>& numbers) {
  ReductionTable table;
  table.kind = kind;
  if (kind != ReductionKind::latency) table.value = "price";
  ReductionRow row;
  row.probe = "shop:order";
  for (const query::Number& number : numbers) {
    ++row.count;
    row.sum.add(number);
    row.least = number;
    row.histogram.add(number);
  }
  table.rows.push_back(std::move(row));
  return table;
}

TEST(ReductionMetrics, CountsAreACounter) {
  ReductionMetrics metrics(10);
  const std::string made =
      metrics.text(counts_by_tenant({{text_key("acme"), 3}, {text_key("zen"), 4}}));
  EXPECT_THAT(made, StartsWith("# HELP vitrine_probe_fires_total Fires of a probe.\n"
                               "# TYPE vitrine_probe_fires_total counter\n"
                               "vitrine_probe_fires_total{probe=\"shop:order\",tenant=\"acme\"} 3\n"
                               "vitrine_probe_fires_total{probe=\"shop:order\",tenant=\"zen\"} 4\n"
                               "# HELP vitrine_trace_lost_total"));
  EXPECT_THAT(made, HasSubstr("\nvitrine_trace_lost_total 0\n"));
}

TEST(ReductionMetrics, AKeyThatIsNotSetHasNoLabel) {
  EXPECT_THAT(ReductionMetrics(10).text(counts_by_tenant({{std::nullopt, 3}})),
              HasSubstr("vitrine_probe_fires_total{probe=\"shop:order\"} 3\n"));
}

/// To Prometheus both are one series, and a page that has it twice is refused.
TEST(ReductionMetrics, AnEmptyValueIsAsOneThatIsNotSet) {
  const std::string made =
      ReductionMetrics(10).text(counts_by_tenant({{std::nullopt, 3}, {text_key(""), 4}}));
  EXPECT_THAT(made, HasSubstr("vitrine_probe_fires_total{probe=\"shop:order\"} 7\n"));
  EXPECT_THAT(made, Not(HasSubstr("tenant")));
}

TEST(ReductionMetrics, ValuesAreEscaped) {
  const std::string made = ReductionMetrics(10).text(
      counts_by_tenant({{text_key("a\"b\\c\nd"), 1}, {text_key("\xff"), 2}}));
  EXPECT_THAT(made, HasSubstr(R"(tenant="a\"b\\c\nd"} 1)"));
  EXPECT_THAT(made, HasSubstr(R"(tenant="\\xff"} 2)"));
}

TEST(ReductionMetrics, NoTwoValuesAreTheSameLabel) {
  const std::string made = ReductionMetrics(10).text(counts_by_tenant({{text_key("\xff"), 1},
                                                                       {text_key("\xfe"), 2},
                                                                       {text_key("\\xff"), 4},
                                                                       {text_key("a\\b"), 8}}));
  EXPECT_THAT(made, HasSubstr(R"(tenant="\\xff"} 1)"));
  EXPECT_THAT(made, HasSubstr(R"(tenant="\\xfe"} 2)"));
  EXPECT_THAT(made, HasSubstr(R"(tenant="\\\\xff"} 4)"));
  EXPECT_THAT(made, HasSubstr(R"(tenant="a\\b"} 8)"));
}

TEST(ReductionMetrics, NamesAreMadeOfTitles) {
  ReductionTable table;
  table.by = {"http.route", "probe", "4xx", "http_route", "__name__", "größe"};
  ReductionRow row;
  row.probe = "p:n";
  row.keys = {text_key("a"), text_key("b"), text_key("c"),
              text_key("d"), text_key("e"), text_key("f")};
  row.count = 1;
  table.rows.push_back(row);
  EXPECT_THAT(
      ReductionMetrics(10).text(table),
      HasSubstr(
          R"({probe="p:n",http_route="a",by_probe="b",_4xx="c",by_http_route="d",by__name__="e",gr____e="f"} 1)"));
}

TEST(ReductionMetrics, GroupsPastTheLimitAreOneAndNoCounterShrinks) {
  ReductionMetrics metrics(2);
  const std::string first =
      metrics.text(counts_by_tenant({{text_key("a"), 5}, {text_key("b"), 4}}));
  EXPECT_THAT(first, HasSubstr("vitrine_trace_folded_groups 0\n"));
  EXPECT_THAT(first, Not(HasSubstr("\"__other__\"")));
  // Another order: who has most by now.
  ReductionTable later = counts_by_tenant(
      {{text_key("c"), 100}, {text_key("a"), 6}, {text_key("d"), 1}, {text_key("b"), 4}});
  later.others.count = 7;
  const std::string then = metrics.text(later);
  EXPECT_THAT(then, HasSubstr("tenant=\"a\"} 6\n"));
  EXPECT_THAT(then, HasSubstr("tenant=\"b\"} 4\n"));
  EXPECT_THAT(then, HasSubstr("{probe=\"__other__\",tenant=\"__other__\"} 108\n"));
  EXPECT_THAT(then, Not(HasSubstr("tenant=\"c\"")));
  EXPECT_THAT(then, HasSubstr("vitrine_trace_folded_groups 2\n"));
}

TEST(ReductionMetrics, GroupsThatReadAlikeAreSeriesOfTheirOwn) {
  // Of bytes that are not UTF-8, and of the text that they are shown as.
  const std::string made =
      ReductionMetrics(10).text(counts_by_tenant({{text_key("\xff"), 2}, {text_key("\\xff"), 3}}));
  EXPECT_THAT(made, HasSubstr(R"({probe="shop:order",tenant="\\xff"} 2)"));
  EXPECT_THAT(made, HasSubstr(R"({probe="shop:order",tenant="\\\\xff"} 3)"));
}

TEST(ReductionMetrics, SumsAreASummary) {
  EXPECT_THAT(
      ReductionMetrics(10).text(values(ReductionKind::sum, {std::int64_t{-7}, std::int64_t{3}})),
      HasSubstr("# TYPE vitrine_probe_value summary\n"
                "vitrine_probe_value_sum{probe=\"shop:order\",value=\"price\"} -4\n"
                "vitrine_probe_value_count{probe=\"shop:order\",value=\"price\"} 2\n"));
}

/// The counts of buckets by their ends.
std::vector<std::pair<std::string, std::string>> buckets(const std::string& made) {
  std::vector<std::pair<std::string, std::string>> found;
  constexpr std::string_view mark = "le=\"";
  for (auto at = made.find(mark); at != std::string::npos; at = made.find(mark, at)) {
    at += mark.size();
    const auto end = made.find('"', at);
    const auto line = made.find('\n', end);
    found.emplace_back(made.substr(at, end - at), made.substr(end + 3, line - end - 3));
  }
  return found;
}

TEST(ReductionMetrics, BucketsOfIntegersEndBelowPowersOfTwo) {
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  const auto of = [](std::int64_t value) { return query::Number(value); };
  EXPECT_EQ(buckets(ReductionMetrics(1).text(values(
                ReductionKind::histogram, {of(0), of(1), of(2), of(3), of(4), of(15), of(16)}))),
            (Pairs{{"0", "1"},
                   {"1", "2"},
                   {"3", "4"},
                   {"7", "5"},
                   {"15", "6"},
                   {"31", "7"},
                   {"+Inf", "7"}}));
  EXPECT_EQ(buckets(ReductionMetrics(1).text(
                values(ReductionKind::histogram, {of(-5), of(-4), of(-1), of(0), of(1)}))),
            (Pairs{{"-4", "2"}, {"-2", "2"}, {"-1", "3"}, {"0", "4"}, {"1", "5"}, {"+Inf", "5"}}));
  EXPECT_EQ(buckets(ReductionMetrics(1).text(
                values(ReductionKind::histogram, {query::Number(0.5), query::Number(1.5)}))),
            (Pairs{{"1", "1"}, {"2", "2"}, {"+Inf", "2"}}));
}

TEST(ReductionMetrics, EveryIntegerIsInTheRightBucket) {
  // Each value beside its neighbours of a power of two, against the definition of a bucket.
  for (int exponent = 0; exponent < 63; ++exponent) {
    for (std::int64_t off = -1; off <= 1; ++off) {
      for (const std::int64_t sign : {1, -1}) {
        const std::int64_t value = sign * ((std::int64_t{1} << exponent) + off);
        for (const auto& [end, count] : buckets(ReductionMetrics(1).text(
                 values(ReductionKind::histogram, {query::Number(value)})))) {
          const bool within = end == "+Inf" || value <= std::stoll(end);
          ASSERT_EQ(count, within ? "1" : "0") << value << " le " << end;
        }
      }
    }
  }
}

TEST(ReductionMetrics, LatenciesAreInSecondsWithTheSameBucketsAlways) {
  const std::string made = ReductionMetrics(1).text(
      values(ReductionKind::latency,
             {std::uint64_t{1023}, std::uint64_t{1024}, std::uint64_t{2'000'000'000}}));
  const auto all = buckets(made);
  ASSERT_EQ(all.size(), 28U);
  EXPECT_EQ(all.front(), (std::pair<std::string, std::string>("1.023e-06", "1")));
  EXPECT_EQ(all[1], (std::pair<std::string, std::string>("2.047e-06", "2")));
  EXPECT_EQ(all.back(), (std::pair<std::string, std::string>("+Inf", "3")));
  EXPECT_THAT(made, HasSubstr("vitrine_probe_latency_seconds_count{probe=\"shop:order\"} 3\n"));
  EXPECT_THAT(made,
              HasSubstr("vitrine_probe_latency_seconds_sum{probe=\"shop:order\"} 2.000002047\n"));
}

TEST(ReductionMetrics, EveryBucketIsOneOfAnExponentialHistogram) {
  // Bucket i of scale 0: above 2^i, up to 2^(i + 1); as integers of 128 bits, which have room for both.
  __extension__ typedef unsigned __int128 Wide;
  for (std::uint32_t bucket = 1; bucket < 496; ++bucket) {
    const Wide low = vitrine_bucket_low(bucket);
    const Wide high = low + vitrine_bucket_width(bucket) - 1;
    ASSERT_EQ(vitrine_bucket_of_magnitude(static_cast<std::uint64_t>(low)), bucket);
    ASSERT_EQ(vitrine_bucket_of_magnitude(static_cast<std::uint64_t>(high)), bucket);
    const std::int32_t index = power_bucket(bucket, false);
    const Wide end = Wide{1} << (index + 1);
    EXPECT_LE(high, end) << bucket;
    if (high == low) {
      EXPECT_TRUE(index == -1 || low > end / 2) << bucket;
    } else {
      EXPECT_GT(low + 1, end / 2) << bucket;  // all values but perhaps the least one
      EXPECT_GE(low, end / 2) << bucket;
    }
    // Fractions: from `low` to before `high` + 1.
    const std::int32_t wide = power_bucket(bucket, true);
    EXPECT_GE(low, Wide{1} << wide) << bucket;
    EXPECT_LE(high + 1, Wide{1} << (wide + 1)) << bucket;
  }
}

TEST(ReductionMetrics, HistogramsKeepEveryValueInOtlp) {
  ReductionTable table =
      values(ReductionKind::histogram,
             {std::int64_t{-5}, std::int64_t{0}, std::int64_t{1}, std::int64_t{8}, std::int64_t{9},
              std::int64_t{16}, std::int64_t{100}});
  const telemetry::Point point = ReductionMetrics(1).of(table).front().points.at(0);
  EXPECT_EQ(point.count, 7U);
  EXPECT_EQ(point.zeros, 1U);
  EXPECT_EQ(point.positive.offset, -1);  // 1; 8; 9; 16 and 17 are one bucket of ours; 100
  EXPECT_EQ(point.positive.counts, (std::vector<std::uint64_t>{1, 0, 0, 1, 1, 1, 0, 1}));
  EXPECT_EQ(point.negative.offset, 2);
  EXPECT_EQ(point.negative.counts, (std::vector<std::uint64_t>{1}));
}

TEST(ReductionMetrics, ValuesPastTheBudgetOfAKeyAreOne) {
  ReductionMetrics metrics(100, 2);
  ReductionTable table = counts_by_tenant({{text_key("a"), 5},
                                           {text_key("b"), 4},
                                           {text_key("c"), 3},
                                           {text_key("d"), 2},
                                           {std::nullopt, 1}});
  const std::string made = metrics.text(table);
  EXPECT_THAT(made, HasSubstr("{probe=\"shop:order\",tenant=\"a\"} 5\n"));
  EXPECT_THAT(made, HasSubstr("{probe=\"shop:order\",tenant=\"__other__\"} 5\n"));
  EXPECT_THAT(made, HasSubstr("{probe=\"shop:order\"} 1\n"));
  EXPECT_THAT(made, Not(HasSubstr("tenant=\"c\"")));
  EXPECT_THAT(made, HasSubstr("vitrine_trace_folded_values{key=\"tenant\"} 2\n"));
  EXPECT_THAT(made, HasSubstr("vitrine_trace_folded_groups 2\n"));
  // What came first keeps its series.
  const std::string then = metrics.text(counts_by_tenant({{text_key("d"), 9}, {text_key("b"), 4}}));
  EXPECT_THAT(then, HasSubstr("tenant=\"b\"} 4\n"));
  EXPECT_THAT(then, HasSubstr("vitrine_trace_folded_values{key=\"tenant\"} 1\n"));
}

TEST(ReductionMetrics, ALabelHasOneNameWhicheverRowsHaveIt) {
  ReductionTable table = counts_by_tenant({{text_key("late"), 3}});
  table.by = {"a.b", "a_b"};
  table.rows[0].keys = {{}, text_key("late")};
  EXPECT_THAT(ReductionMetrics(10).text(table),
              HasSubstr("{probe=\"shop:order\",by_a_b=\"late\"} 3\n"));
}

TEST(ReductionMetrics, ExemplarsHaveTheirSpan) {
  ReductionTable table = values(ReductionKind::latency, {std::uint64_t{2'000'000}});
  table.rows[0].exemplar = query::ReductionExemplar{
      5, std::uint64_t{2'000'000}, "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"};
  const std::string made =
      telemetry::openmetrics_text(ReductionMetrics(1).of(table, 1'000'000'000));
  EXPECT_THAT(made, HasSubstr("le=\"0.002097151\"} 1 # "
                              "{trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\","
                              "span_id=\"00f067aa0ba902b7\"} 0.002 1.000000005\n"));
  table.rows[0].exemplar->trace_id = "(redacted)";
  EXPECT_FALSE(ReductionMetrics(1).of(table).front().points.at(0).exemplar.has_value());
}

}  // namespace
}  // namespace vitrine::cli
