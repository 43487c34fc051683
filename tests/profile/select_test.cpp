#include "profile/select.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "profile/encode.hpp"
#include "profile/profiles.hpp"
#include "profile/time_totals.hpp"

namespace vitrine::profile {
namespace {

using test::small_profile;
using test::tick_ns;
using testing::ElementsAre;
using testing::HasSubstr;

/// The indices of the samples that stay.
std::vector<std::size_t> kept(std::string_view text) {
  const Profile profile = small_profile();
  const auto filter = Filter::parse(text);
  std::vector<std::size_t> out;
  if (!filter) {
    ADD_FAILURE() << filter.error().message;
    return out;
  }
  for (std::size_t i = 0; i < profile.samples.size(); ++i)
    if (filter->holds(profile, profile.samples[i])) out.push_back(i);
  EXPECT_EQ(filtered(profile, *filter).samples.size(), out.size());
  return out;
}

TEST(ValueOf, ALabelComesBeforeWhatTheSampleItselfHas) {
  Profile profile = small_profile();
  const auto value = [&](std::size_t sample, const char* key) {
    return value_of(profile, profile.samples[sample], key);
  };
  EXPECT_EQ(value(0, "tenant"), "acme");
  EXPECT_EQ(value(5, "tenant"), "");
  EXPECT_EQ(value(6, "tenant"), std::nullopt);
  EXPECT_EQ(value(0, "trace_id"), "0102030405060708090a0b0c0d0e0f10");
  EXPECT_EQ(value(0, "span_id"), "1112131415161718");
  EXPECT_EQ(value(2, "trace_id"), std::nullopt);
  EXPECT_EQ(value(2, "pid"), "100");
  EXPECT_EQ(value(2, "tid"), "101");
  EXPECT_EQ(value(2, "thread"), "worker");
  EXPECT_EQ(value(2, "process"), "shop");
  EXPECT_EQ(value(2, "cpu"), "1");
  profile.label_sets[1] = {{"pid", "mine"}};
  EXPECT_EQ(value(2, "pid"), "mine");
}

TEST(Filter, EveryComparison) {
  EXPECT_THAT(kept("tenant=acme"), ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(kept("tenant!=acme"), ElementsAre(2, 5, 6, 7, 8, 9));
  EXPECT_THAT(kept("tenant~^(acme|globex)$"), ElementsAre(0, 1, 2, 3, 4, 8, 9));
  EXPECT_THAT(kept("tenant!~."), ElementsAre(5, 6, 7));
  EXPECT_THAT(kept("tenant="), ElementsAre(6));
  EXPECT_THAT(kept("tenant!="), ElementsAre(0, 1, 2, 3, 4, 5, 7, 8, 9));
  EXPECT_THAT(kept("pid=100,tenant!=acme,thread~^w\\w+$"), ElementsAre(2, 8, 9));
  EXPECT_THAT(kept("trace_id~^0102"), ElementsAre(0, 1, 3, 4));
}

TEST(Filter, CommasAndBackslashesOfValues) {
  Profile profile = small_profile();
  profile.label_sets[0] = {{"k", R"(a,b\c)"}};
  const auto filter = Filter::parse(R"(k=a\,b\\c,k~^a\,b\\\\c$,k~\w)");
  ASSERT_TRUE(filter) << filter.error().message;
  EXPECT_TRUE(filter->holds(profile, profile.samples[0]));
}

TEST(Filter, OperatorsInKeys) {
  Profile profile = small_profile();
  profile.label_sets[0] = {{R"(a=b,!~\c)", "x"}};
  const auto filter = Filter::parse(R"(a\=b\,\!\~\\c=x)");
  ASSERT_TRUE(filter) << filter.error().message;
  EXPECT_TRUE(filter->holds(profile, profile.samples[0]));
}

TEST(Filter, SaysWhatIsWrongAndWhere) {
  const auto error = [](std::string_view text) {
    const auto filter = Filter::parse(text);
    EXPECT_FALSE(filter);
    return filter ? "" : filter.error().message;
  };
  EXPECT_THAT(error("tenant"), HasSubstr("no comparison for 'tenant' at character 1"));
  EXPECT_THAT(error("a=1,"), HasSubstr("at character 5"));
  EXPECT_THAT(error("a=1,=2"), HasSubstr("no key at character 5"));
  EXPECT_THAT(error("a=1,b~("), HasSubstr("not a regular expression"));
  EXPECT_THAT(error("a!b"), HasSubstr("no comparison for 'a'"));
  EXPECT_THAT(error(std::string(100'000, 'x')), HasSubstr("exceeds the limit"));
}

// A backtracking matcher needs 2^30 steps and more for each of these.
TEST(Filter, HostileValuesTakeLinearTime) {
  Profile profile = small_profile();
  profile.label_sets[0] = {{"tenant", std::string(16 * 1024, 'a')}};
  const auto filter = Filter::parse("tenant~^(a|aa)+$,tenant~^(a*)*b?$,tenant!~(a?){64}a{64}z");
  ASSERT_TRUE(filter) << filter.error().message;
  EXPECT_TRUE(filter->holds(profile, profile.samples[0]));
}

TEST(Top, TimeByValuesTheMostFirst) {
  const auto rows = top(small_profile(), {"tenant"});
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_THAT(rows[0].values, ElementsAre(""));
  EXPECT_EQ(rows[0].off_cpu_ns, 3'000'000'000U);
  EXPECT_EQ(rows[0].on_cpu_ns, tick_ns);
  EXPECT_EQ(rows[0].samples, 2U);
  EXPECT_THAT(rows[1].values, ElementsAre("acme"));
  EXPECT_EQ(rows[1].on_cpu_ns, 2 * tick_ns);
  EXPECT_EQ(rows[1].off_cpu_ns, 12'000'499U);
  EXPECT_THAT(rows[2].values, ElementsAre("globex"));
  EXPECT_THAT(rows[3].values, ElementsAre("(none)"));
  EXPECT_THAT(top(small_profile(), {"tenant", "pid"})[1].values, ElementsAre("acme", "100"));
  EXPECT_TRUE(top({}, {"tenant"}).empty());
}

TEST(Top, AValueThatReadsLikeNoneIsNotAddedUpWithNone) {
  Profile profile = small_profile();
  for (LabelSet& set : profile.label_sets) set = {{"tenant", "(none)"}};
  profile.label_sets.back() = {{"tenant", "\"(none)\""}};
  profile.samples[0].labels = static_cast<Index>(profile.label_sets.size() - 1);
  std::map<std::string, std::uint64_t> by_value, by_name;
  for (const Sample& sample : profile.samples)
    by_value[value_of(profile, sample, "tenant").value_or("none")] += sample.count;
  ASSERT_EQ(by_value.size(), 3U);
  for (const TopRow& row : top(profile, {"tenant"})) by_name[row.values.at(0)] = row.samples;
  EXPECT_EQ(by_name,
            (std::map<std::string, std::uint64_t>{{"(none)", by_value["none"]},
                                                  {"\"(none)\"", by_value["(none)"]},
                                                  {"\"\"(none)\"\"", by_value["\"(none)\""]}}));
  std::map<std::string, std::uint64_t> by_frame;
  for (const Sample& sample : profile.samples)
    by_frame[group_frames(profile, sample, {"tenant"}).at(0)] += sample.count;
  EXPECT_EQ(by_frame["tenant=(none)"], by_value["none"]);
  EXPECT_EQ(by_frame["tenant=\"(none)\""], by_value["(none)"]);
}

// To engines of metrics an empty label is none: two series would be one.
TEST(TimeTotals, AnEmptyLabelIsNone) {
  const Profile profile = small_profile();
  std::uint64_t unlabelled_ns = 0;
  std::set<std::string> kinds;  // of those: an empty label, none
  for (const Sample& sample : profile.samples) {
    const auto value = value_of(profile, sample, "tenant");
    if (sample.measure != Measure::on_cpu || !value.value_or("").empty()) continue;
    unlabelled_ns += sample.value_ns;
    kinds.insert(value ? "empty" : "none");
  }
  ASSERT_THAT(kinds, ElementsAre("empty", "none"));

  TimeTotals totals({"tenant"}, 100, 100);
  totals.add(profile);
  std::vector<double> unlabelled;
  for (const telemetry::Metric& metric : totals.metrics())
    if (metric.name == "vitrine.cpu.time")
      for (const telemetry::Point& point : metric.points)
        if (point.attributes.empty() || point.attributes == telemetry::Attributes{{"tenant", ""}})
          unlabelled.push_back(std::get<double>(point.value));
  EXPECT_THAT(unlabelled, ElementsAre(static_cast<double>(unlabelled_ns) / 1e9));
}

/// As labels of metrics of probes, whose points are in the same page.
TEST(TimeTotals, BytesThatAreNoTextAreSpelledAsInMetricsOfProbes) {
  Profile profile = small_profile();
  for (std::size_t i = 0; i < profile.label_sets.size(); ++i)
    profile.label_sets[i] = {{"tenant", i % 2 == 0 ? "\xff" : "\xfe"}};
  TimeTotals totals({"tenant"}, 100, 100);
  totals.add(profile);
  const std::string text = telemetry::prometheus_text(totals.metrics());
  EXPECT_THAT(text, testing::HasSubstr("vitrine_cpu_seconds_total{tenant=\"\\\\xff\"} "));
  EXPECT_THAT(text, testing::HasSubstr("vitrine_cpu_seconds_total{tenant=\"\\\\xfe\"} "));
}

TEST(TimeTotals, ALabelHasOneNameWhicheverSamplesHaveIt) {
  Profile profile = small_profile();
  for (LabelSet& set : profile.label_sets) set = {{"a_b", "late"}};
  TimeTotals totals({"a.b", "a_b"}, 100, 100);
  totals.add(profile);
  EXPECT_THAT(telemetry::prometheus_text(totals.metrics()),
              testing::HasSubstr("vitrine_cpu_seconds_total{by_a_b=\"late\"} "));
}

}  // namespace
}  // namespace vitrine::profile
