// What is remembered from one reading to the next must never be shown in place of what is new.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "observe/observe_subject.hpp"

namespace vitrine::observe {
namespace {

using namespace std::chrono_literals;

class Fresh : public testing::TestWithParam<Mode> {};

/// The values of the label `n` that the process's second thread shows, one a format.
std::vector<std::string> shown(LabelReader& reader, pid_t main) {
  std::vector<std::string> values;
  auto snapshot = reader.read(0ms);
  EXPECT_TRUE(snapshot) << (snapshot ? "" : snapshot.error().message);
  if (!snapshot) return values;
  for (const ThreadLabels& thread : snapshot->threads) {
    if (thread.tid == main) continue;
    EXPECT_NE(thread.evidence, Evidence::unproven);
    values.push_back(test::value_of(thread, "n"));
  }
  return values;
}

TEST_P(Fresh, EachChangeShowsInTheNextReading) {
  test::Child target = test::Child::spawn({OBSERVE_PUBLISHER});
  ASSERT_EQ(target.read_line(), "ready");
  auto reader = test::open_reader(target.pid(), GetParam());
  ASSERT_TRUE(reader);
  std::size_t formats = reader->definitions().size();
  ASSERT_GE(formats, 1u);
  for (int change = 0; change < 200; ++change) {
    // Few values: the publisher's blocks and slots come back with other incarnations.
    const std::string value = change % 5 == 0 ? "" : std::to_string(change % 3);
    target.write(value + "\n");
    ASSERT_EQ(target.read_line(), "ok");
    const std::vector<std::string> expected(formats, value);
    for (int again = 0; again < 3; ++again)
      ASSERT_EQ(shown(*reader, target.pid()), expected) << change << ", reading " << again;
  }
}

// The thread that shows the label runs nothing, so its slot stands; what it leads to does not.
TEST_P(Fresh, AnEditByAnotherThreadShowsInTheNextReading) {
  test::Child target = test::start_subject("edit");
  auto reader = test::open_reader(target.pid(), GetParam());
  ASSERT_TRUE(reader);
  std::vector<std::string> expected{"0"};
  for (int change = 0; change < 50; ++change) {
    for (int again = 0; again < 3; ++again)
      ASSERT_EQ(shown(*reader, target.pid()), expected) << change << ", reading " << again;
    expected = {std::to_string(test::ask(target).at(0))};
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, Fresh, testing::Values(Mode::snapshot, Mode::ptrace),
                         [](const auto& row) { return std::string(name(row.param)); });

}  // namespace
}  // namespace vitrine::observe
