// Metrics, spans and log records, decoded by protoc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "support/child.hpp"
#include "telemetry/budget.hpp"
#include "telemetry/metrics.hpp"
#include "telemetry/records.hpp"

namespace vitrine::telemetry {
namespace {

using testing::HasSubstr;
using testing::Not;

/// As protoc shows a message, without line ends and indentation.
std::string decoded(const std::string& message, const std::string& type) {
  const auto file =
      std::filesystem::temp_directory_path() / ("vitrine-signal-" + std::to_string(::getpid()));
  std::ofstream(file, std::ios::binary) << message;
  const auto done = test::run({"sh", "-c",
                               "protoc --proto_path=" TELEMETRY_TESTS " --decode=otlp." + type +
                                   " signals.proto < " + file.string()});
  std::filesystem::remove(file);
  EXPECT_EQ(done.status, 0) << done.err;
  std::string line;
  for (const char c : done.out)
    if (c == '\n')
      line += ' ';
    else if (c != ' ' || (!line.empty() && line.back() != ' '))
      line += c;
  return line;
}

const TraceContext in_span{{0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0xa3, 0xce, 0x92, 0x9d,
                            0x0e, 0x0e, 0x47, 0x36},
                           {0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7},
                           1};

std::string one_request(const Metric& metric) {
  Requests requests(1 << 20);
  add_metrics({metric}, {5, 7}, encode_resource({{"service.name", std::string("shop")}}), requests);
  const auto all = requests.take();
  EXPECT_EQ(all.size(), 1U);
  return all.empty() ? "" : all.front();
}

Point counted(std::int64_t value) {
  Point point;
  point.attributes = {{"tenant", std::string("acme")}};
  point.value = value;
  point.text = std::to_string(value);
  return point;
}

TEST(Metrics, ACounterIsACumulativeMonotonicSum) {
  Metric metric{MetricKind::counter, "vitrine.probe.fires", "f", "{fire}", "Fires.", {counted(3)}};
  metric.points[0].exemplar = Exemplar{6, std::int64_t{1}, "1", in_span};
  const std::string shown = decoded(one_request(metric), "MetricsData");
  EXPECT_THAT(
      shown,
      HasSubstr(
          R"(resource { attributes { key: "service.name" value { string_value: "shop" } } })"));
  EXPECT_THAT(shown, HasSubstr(R"(scope { name: "vitrine" version: )"));
  EXPECT_THAT(
      shown,
      HasSubstr(
          R"(metrics { name: "vitrine.probe.fires" description: "Fires." unit: "{fire}" sum { data_points { start_time_unix_nano: 5 time_unix_nano: 7 exemplars { time_unix_nano: 6 span_id: "\000\360g\252\013\251\002\267" trace_id: "K\371/5w\263M\246\243\316\222\235\016\016G6" as_int: 1 } as_int: 3 attributes { key: "tenant" value { string_value: "acme" } } } aggregation_temporality: CUMULATIVE is_monotonic: true })"));
}

TEST(Metrics, AGaugeHasNoStartAndATotalIsNotMonotonic) {
  const std::string gauge =
      decoded(one_request({MetricKind::gauge, "g", "g", "1", "", {counted(-4)}}), "MetricsData");
  EXPECT_THAT(gauge, HasSubstr("gauge { data_points { time_unix_nano: 7 as_int: -4"));
  Metric total{MetricKind::total, "t", "t", "1", "", {counted(-4)}};
  total.points[0].count = 2;
  const std::string shown = decoded(one_request(total), "MetricsData");
  EXPECT_THAT(shown, HasSubstr("as_int: -4"));
  EXPECT_THAT(shown, HasSubstr("} aggregation_temporality: CUMULATIVE } }"));
  EXPECT_THAT(shown, HasSubstr("name: \"t.count\" "));
  EXPECT_THAT(shown, HasSubstr("as_int: 2"));
}

TEST(Metrics, AHistogramIsExponential) {
  Metric metric{MetricKind::histogram, "h", "h", "ns", "", {counted(100)}};
  Point& point = metric.points[0];
  point.count = 7;
  point.zeros = 1;
  point.least = 0;
  point.greatest = 90;
  point.positive.add(3, 2);
  point.positive.add(6, 1);
  point.positive.add(-1, 3);
  const std::string shown = decoded(one_request(metric), "MetricsData");
  EXPECT_THAT(shown, HasSubstr("count: 7 sum: 100 zero_count: 1 positive { offset: -1 "
                               "bucket_counts: 3 bucket_counts: 0 bucket_counts: 0 "
                               "bucket_counts: 0 bucket_counts: 2 bucket_counts: 0 "
                               "bucket_counts: 0 bucket_counts: 1 } min: 0 max: 90"));
  point.negative.add(0, 1);
  EXPECT_THAT(decoded(one_request(metric), "MetricsData"), Not(HasSubstr(" sum: ")));
}

TEST(Metrics, LongValuesMakeNoRequestThatIsTooLarge) {
  constexpr std::size_t limit = 1 << 20;
  Metric metric{MetricKind::counter, "vitrine.probe.fires", "f", "{fire}", "Fires.", {}};
  for (int i = 0; i < 300; ++i) {
    metric.points.push_back(counted(i));
    metric.points.back().attributes = {
        {"path", std::to_string(i) + "-point" + std::string(std::size_t{12} << 10, 'x')}};
  }
  Requests requests(limit);
  add_metrics({metric}, {5, 7}, {}, requests);
  EXPECT_EQ(requests.too_large(), 0U);
  std::size_t points = 0;
  for (const std::string& request : requests.take()) {
    EXPECT_LE(request.size(), limit);
    for (auto at = request.find("-point"); at != std::string::npos; ++points)
      at = request.find("-point", at + 1);
  }
  EXPECT_EQ(points, metric.points.size());
}

TEST(LabelBudget, AValueThatIsTooLongIsFoldedAndCounted) {
  LabelBudget budget(100, 100);
  budget.begin();
  for (const std::string& value : {std::string(max_value_bytes, 'a'), std::string(5000, 'a'),
                                   std::string(4999, 'a'), std::string(5000, 'a')}) {
    Attributes attributes{{"path", value}};
    EXPECT_TRUE(budget.take(attributes, 0));
    EXPECT_EQ(std::get<std::string>(attributes[0].value),
              value.size() > max_value_bytes ? other_value : value);
  }
  EXPECT_EQ(budget.folded_series(), 3U);
  EXPECT_EQ(budget.folded_values("n", "n").points.at(0).text, "2");
}

TEST(Records, ALogRecordHasItsTrace) {
  LogRecord record{1, 2, "vitrine.probe", "shop:order", {}, in_span};
  record.attributes = {{"text", std::string("a\xff")},
                       {"number", std::int64_t{-3}},
                       {"fraction", 0.5},
                       {"truth", true},
                       {"list", std::vector<std::string>{"a", ""}},
                       {"bytes", Blob{"\xff"}}};
  Requests requests(1 << 20);
  requests.add("", encode(record));
  EXPECT_THAT(
      decoded(requests.take().at(0), "LogsData"),
      HasSubstr(
          R"(log_records { time_unix_nano: 1 severity_number: SEVERITY_INFO severity_text: "INFO" body { string_value: "shop:order" } attributes { key: "text" value { string_value: "a\357\277\275" } } attributes { key: "number" value { int_value: -3 } } attributes { key: "fraction" value { double_value: 0.5 } } attributes { key: "truth" value { bool_value: true } } attributes { key: "list" value { array_value { values { string_value: "a" } values { string_value: "" } } } } attributes { key: "bytes" value { bytes_value: "\377" } } flags: 1 trace_id: "K\371/5w\263M\246\243\316\222\235\016\016G6" span_id: "\000\360g\252\013\251\002\267" observed_time_unix_nano: 2 event_name: "vitrine.probe" })"));
}

TEST(Records, ASpanIsAChildOfTheTraceContext) {
  SpanIds ids(1);
  Span span{"shop:request", 3, 9, {{"k", std::string("v")}}, ids.next(in_span), in_span.span_id};
  EXPECT_EQ(span.trace.trace_id, in_span.trace_id);
  EXPECT_NE(span.trace.span_id, in_span.span_id);
  Requests requests(1 << 20);
  requests.add("", encode(span));
  const std::string shown = decoded(requests.take().at(0), "TracesData");
  EXPECT_THAT(
      shown,
      HasSubstr(R"(spans { trace_id: "K\371/5w\263M\246\243\316\222\235\016\016G6" span_id: )"));
  EXPECT_THAT(
      shown,
      HasSubstr(
          R"(parent_span_id: "\000\360g\252\013\251\002\267" name: "shop:request" kind: KIND_INTERNAL start_time_unix_nano: 3 end_time_unix_nano: 9 attributes { key: "k" value { string_value: "v" } } flags: 1 })"));
  const TraceContext root = ids.next({});
  EXPECT_NE(root.trace_id, in_span.trace_id);
  EXPECT_NE(root.trace_id, ids.next({}).trace_id);
  EXPECT_EQ(root.flags, 1);
}

/// Bodies of the log records in a request, as protoc shows it.
std::size_t records_in(const std::string& request) {
  const std::string shown = decoded(request, "LogsData");
  std::size_t count = 0;
  for (auto at = shown.find("log_records {"); at != shown.npos;
       at = shown.find("log_records {", at + 1))
    ++count;
  return count;
}

TEST(Requests, NoneIsLargerThanAskedAndNothingIsLost) {
  Requests requests(2000);
  for (int i = 0; i < 100; ++i)
    requests.add(encode_resource({{"process.pid", std::int64_t{i % 3}}}),
                 encode(LogRecord{1, 1, "e", std::string(100, 'x'), {}, {}}));
  requests.add("", std::string(3000, 'x'));
  EXPECT_EQ(requests.too_large(), 1U);
  EXPECT_GT(requests.bytes(), 10'000U);
  std::size_t records = 0;
  const auto bodies = requests.take();
  EXPECT_LT(bodies.size(), 20U);
  for (const std::string& body : bodies) {
    EXPECT_LE(body.size(), 2000U);
    records += records_in(body);
  }
  EXPECT_EQ(records, 100U);
  EXPECT_EQ(requests.bytes(), 0U);
  EXPECT_TRUE(requests.take().empty());
}

TEST(Requests, HalvesHaveTheSameItems) {
  Requests requests(1 << 20);
  for (int i = 0; i < 5; ++i)
    requests.add(encode_resource({{"process.pid", std::int64_t{i}}}),
                 encode(LogRecord{1, 1, "e", "x", {}, {}}));
  const auto halves = split_request(requests.take().at(0));
  ASSERT_EQ(halves.size(), 2U);
  EXPECT_EQ(records_in(halves[0]), 2U);
  EXPECT_EQ(records_in(halves[1]), 3U);
  requests.add("", encode(LogRecord{}));
  EXPECT_EQ(split_request(requests.take().at(0)).size(), 1U);
  for (const char* text : {"", "garbage", "\x0a\xff", "\x0a\x04\x12\x7f"})
    EXPECT_LT(split_request(text).size(), 2U) << text;
}

TEST(MetricsText, ALabelKeepsItsNameWhateverPointsHave) {
  Metric metric{MetricKind::counter, "f", "f", "1", "F.", {}, {"a.b", "a_b"}};
  Point late = counted(1), first = counted(2);
  late.attributes = {{"a_b", "late"}};
  first.attributes = {{"a.b", "first"}};
  metric.points = {late};
  std::vector<Metric> metrics{metric};
  EXPECT_THAT(prometheus_text(metrics), testing::HasSubstr("f_total{by_a_b=\"late\"} 1\n"));
  metric.points = {first};
  merge(metrics, {metric});
  EXPECT_THAT(prometheus_text(metrics), testing::HasSubstr("f_total{by_a_b=\"late\"} 1\n"
                                                           "f_total{a_b=\"first\"} 2\n"));
}

/// To readers one "-nan" makes the whole page invalid.
TEST(MetricsText, WhatIsNotFiniteIsSpelledAsTheFormatsDo) {
  Metric metric{MetricKind::total, "v", "v", "1", "Values.", {}};
  for (const char* text : {"nan", "-nan", "inf", "-inf", "1e+300"}) {
    metric.points.assign(1, Point());
    metric.points[0].text = text;
    const std::string spelled = text == std::string_view("inf")    ? "+Inf"
                                : text == std::string_view("-inf") ? "-Inf"
                                : text[0] == '1'                   ? text
                                                                   : "NaN";
    EXPECT_THAT(prometheus_text({metric}), testing::HasSubstr("\nv_sum " + spelled + "\n"));
    metric.kind = MetricKind::gauge;
    EXPECT_THAT(openmetrics_text({metric}), testing::HasSubstr("\nv " + spelled + "\n"));
    metric.kind = MetricKind::total;
  }
}

/// Its sums are counters, and buckets of negative values forbid them; Prometheus's may shrink.
TEST(MetricsText, OpenMetricsHasNoSumThatMayShrink) {
  Metric metric{MetricKind::total, "v", "v", "1", "Values.", {Point()}};
  metric.points[0].text = "-3";
  metric.points[0].count = 2;
  EXPECT_EQ(openmetrics_text({metric}), "# HELP v Values.\n# TYPE v summary\nv_count 2\n# EOF\n");
  EXPECT_THAT(prometheus_text({metric}), testing::HasSubstr("\nv_sum -3\n"));
  metric.points[0].text = "3";
  EXPECT_THAT(openmetrics_text({metric}), testing::HasSubstr("\nv_sum 3\n"));
  metric.kind = MetricKind::histogram;
  metric.points[0].ends = {{"-1", 1}, {"7", 2}};
  EXPECT_THAT(openmetrics_text({metric}), testing::Not(testing::HasSubstr("v_sum")));
  EXPECT_THAT(prometheus_text({metric}), testing::HasSubstr("\nv_sum 3\n"));
  metric.points[0].ends = {{"7", 2}};
  EXPECT_THAT(openmetrics_text({metric}), testing::HasSubstr("\nv_sum 3\n"));
}

TEST(MetricsText, LabelsAreNotCalledAsTheFormatsOwn) {
  Metric metric{MetricKind::total, "v", "v", "1", "Values.", {Point()}};
  metric.points[0].attributes = {{"quantile", "a"}, {"le", "b"}};
  EXPECT_THAT(prometheus_text({metric}), testing::HasSubstr("{by_quantile=\"a\",by_le=\"b\"}"));
}

TEST(MetricsText, OpenMetricsHasExemplarsAndAnEnd) {
  Metric metric{MetricKind::counter, "f", "vitrine_probe_fires", "1", "Fires.", {counted(3)}};
  metric.points[0].exemplar = Exemplar{1'500'000'000, std::int64_t{1}, "1", in_span};
  EXPECT_EQ(openmetrics_text({metric}),
            "# HELP vitrine_probe_fires Fires.\n# TYPE vitrine_probe_fires counter\n"
            "vitrine_probe_fires_total{tenant=\"acme\"} 3 # "
            "{trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\",span_id=\"00f067aa0ba902b7\"} 1 "
            "1.500000000\n# EOF\n");
  EXPECT_EQ(prometheus_text({metric}),
            "# HELP vitrine_probe_fires_total Fires.\n# TYPE vitrine_probe_fires_total counter\n"
            "vitrine_probe_fires_total{tenant=\"acme\"} 3\n");
}

}  // namespace
}  // namespace vitrine::telemetry
