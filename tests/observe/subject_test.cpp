// Readings of a process that are tried again, and those that are not.
#include "observe/labels/subject.hpp"

#include <gmock/gmock.h>

#include <vector>

#include "observe/observe_subject.hpp"

namespace vitrine::observe {
namespace {

using test::start_subject;

// An exec ends all threads but one, which cannot be stopped then, and gives that one another number.
TEST(Subject, IsReadAgainWhenAReadingFailsAsItExecutesAnotherProgram) {
  test::Child target = start_subject("exec");
  auto subject = Subject::open(target.pid(), {});
  ASSERT_TRUE(subject) << subject.error().message;
  std::vector<Change> seen;
  const auto snapshot = (*subject)->read_unchanged(nullptr, [&](Change change) -> Result<Snapshot> {
    seen.push_back(change);
    if (seen.size() > 1) return Snapshot{};
    target.write("\n");
    EXPECT_EQ(target.read_line(), "ready");
    return fail(ErrorCode::not_permitted, "another process traces it");
  });
  EXPECT_TRUE(snapshot) << snapshot.error().message;
  EXPECT_THAT(seen, testing::ElementsAre(testing::_, Change::program));
}

TEST(Subject, AReadingThatFailsIsNotTriedAgainWithoutReason) {
  const test::Child target = start_subject("exec");
  auto subject = Subject::open(target.pid(), {});
  ASSERT_TRUE(subject) << subject.error().message;
  std::size_t readings = 0;
  const auto snapshot = (*subject)->read_unchanged(nullptr, [&](Change) -> Result<Snapshot> {
    ++readings;
    return fail(ErrorCode::not_permitted, "another process traces it");
  });
  ASSERT_FALSE(snapshot);
  EXPECT_EQ(snapshot.error().message, "another process traces it");
  EXPECT_EQ(readings, 1U);
}

}  // namespace
}  // namespace vitrine::observe
