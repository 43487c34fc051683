// Labels on fires: what the thread that fired had on display, in every format and wherever its
// publisher keeps it.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>

#include "observe/trace_subject.hpp"
#include "observe/writer_labels.hpp"
#include "support/writer.hpp"

namespace vitrine::test {
namespace {

class TraceLabels : public testing::TestWithParam<WriterSpec> {};

TEST_P(TraceLabels, OfTheThreadThatFired) {
  Writer writer = Writer::start(GetParam());
  const auto trace = open_trace(of_process(writer.pid(), {"writer:spin"}));
  ASSERT_TRUE(trace);
  writer.command("spin 1");
  const std::size_t threads = writer.threads().size();
  const auto fires = collect(*trace, threads);
  ASSERT_EQ(fires.size(), threads);

  for (const SeenFire& fire : fires) {
    EXPECT_EQ(fire.labels_error, "");
    expect_labels_of(writer, fire.tid, fire.labels);
  }
}

TEST(TraceOfLargeLabels, HasThoseThatFit) {
  Child child = start_trace_subject();
  const auto trace = open_trace(of_process(child.pid(), {"subject:shot"}));
  ASSERT_TRUE(trace);
  EXPECT_EQ(tell(child, "large"), "large");
  const auto fires = collect(*trace, 1);
  ASSERT_EQ(fires.size(), 1U);
  EXPECT_THAT(fires[0].labels.labels, testing::ElementsAre(format::Label{"tenant", "acme"},
                                                           format::Label{"route", "/pay"}));
  EXPECT_THAT(fires[0].labels.truncated,
              testing::Contains(testing::Field(&format::Truncation::detail,
                                               "label 1: left out, its value was not copied")));
  EXPECT_THAT(fires[0].labels_error, testing::HasSubstr("exceed what an event carries"));
}

// The first entry of a key counts, in the kernel as in user space: one with a null value is no label.
TEST(TraceOfANullValue, HasNoLaterOneOfItsKey) {
  Child child = start_trace_subject();
  TraceOptions options = of_process(child.pid(), {"subject:shot"});
  options.query.where =
      *query::Expression::parse("label.tenant == 'outdated' || label.tenant == 'acme'");
  const auto trace = open_trace(std::move(options));
  ASSERT_TRUE(trace);
  EXPECT_EQ(tell(child, "null"), "null");
  EXPECT_EQ(tell(child, "large"), "large");
  const auto fires = collect(*trace, 1);
  ASSERT_EQ(fires.size(), 1U);
  EXPECT_THAT(fires[0].labels.labels, testing::Contains(format::Label{"tenant", "acme"}));
}

TEST(TraceOfManyDefinitions, ReportsThoseThatItDoesNotRead) {
  Child child = start_trace_subject();
  const auto place =
      std::filesystem::temp_directory_path() / ("vitrine_slots_" + std::to_string(child.pid()));
  std::filesystem::create_directory(place);
  for (std::size_t i = 0; i < limits::definitions; ++i) {
    const auto copy = place / (std::to_string(i) + ".so");
    std::filesystem::copy_file(TRACE_SLOT, copy);
    tell(child, "open " + copy.string());  // which has no plugin_call()
  }
  const auto trace = open_trace(of_process(child.pid(), {"subject:shot"}));
  ASSERT_TRUE(trace);
  EXPECT_EQ(tell(child, "fire 1"), "fire");
  EXPECT_EQ(collect(*trace, 1).size(), 1U);
  EXPECT_THAT(trace->take_notes(),
              testing::Contains("labels of process " + std::to_string(child.pid()) +
                                ": read 16 of 17 definitions"));
  std::filesystem::remove_all(place);
}

/// `program` fires until `holds`, or patience ends.
bool fires_until(Child& program, Trace& trace, const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!holds() && std::chrono::steady_clock::now() < end) {
    EXPECT_EQ(tell(program, "fire 1"), "fire");
    collect_rest(trace);
  }
  return holds();
}

// A record may be in force before the process has named its keys: the kernel, which selects labels by the numbers of
// keys, has to be given them then.
TEST(TraceOfLateKeys, AreGroups) {
  Child child = start_trace_subject({}, TRACE_LATE_KEYS);
  TraceOptions options = of_process(child.pid(), {"late:shot"});
  options.query.reduction.emplace();
  options.query.reduction->by = *query::parse_items("label.tenant");
  const auto trace = open_trace(options);
  ASSERT_TRUE(trace);
  const auto counted = [&](const std::optional<std::string>& tenant) {
    const auto table = trace->reduction();
    EXPECT_TRUE(table);
    return std::ranges::any_of(table->rows, [&](const query::ReductionRow& row) {
      return row.keys.at(0).has_value() == tenant.has_value() && row.count != 0;
    });
  };
  EXPECT_TRUE(fires_until(child, *trace, [&] { return counted(std::nullopt); }));
  EXPECT_FALSE(counted("acme"));
  EXPECT_EQ(tell(child, "name"), "name");
  EXPECT_TRUE(fires_until(child, *trace, [&] { return counted("acme"); }));
}

TEST(TraceOfLateKeys, AreInConditions) {
  Child child = start_trace_subject({}, TRACE_LATE_KEYS);
  TraceOptions options = of_process(child.pid(), {"late:shot"});
  options.query.where = *query::Expression::parse("label.tenant == 'acme'");
  const auto trace = open_trace(options);
  ASSERT_TRUE(trace);
  EXPECT_EQ(tell(child, "fire 3"), "fire");
  EXPECT_TRUE(collect_rest(*trace).empty());
  EXPECT_EQ(tell(child, "name"), "name");
  std::size_t seen = 0;
  const auto end = std::chrono::steady_clock::now() + patience;
  while (seen == 0 && std::chrono::steady_clock::now() < end) {
    EXPECT_EQ(tell(child, "fire 1"), "fire");
    seen = collect_rest(*trace).size();
  }
  EXPECT_GT(seen, 0U);
}

INSTANTIATE_TEST_SUITE_P(Formats, TraceLabels, testing::ValuesIn(format_matrix()), name_of_writer);
INSTANTIATE_TEST_SUITE_P(Locations, TraceLabels, testing::ValuesIn(location_matrix()),
                         name_of_writer);

}  // namespace
}  // namespace vitrine::test
