// `vitrine ps`: real processes that publish something, among many that do not.
#include "observe/ps.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>
#include <optional>

#include "support/child.hpp"

namespace vitrine::observe {
namespace {

using namespace vitrine::test;
using testing::ElementsAre;
using testing::IsEmpty;

struct Subject {
  Child child;
  pid_t other = 0;  ///< a child of it
};

Subject start(const char* program, const char* mode) {
  Subject subject{Child::spawn({program, mode})};
  for (const std::string& line : subject.child.read_until("ready"))
    if (line.rfind("child ", 0) == 0) subject.other = std::atoi(line.c_str() + 6);
  return subject;
}

std::optional<Publisher> find(const PublisherList& list, pid_t pid) {
  for (const Publisher& publisher : list.publishers)
    if (publisher.pid == pid) return publisher;
  return std::nullopt;
}

PublisherList listed() {
  auto list = list_publishers();
  EXPECT_TRUE(list) << list.error().message;
  return list ? *list : PublisherList{};
}

TEST(Ps, FindsWhatPublishesLabels) {
  const Subject subject = start(LABELS_SUBJECT, "labels");
  const auto found = find(listed(), subject.child.pid());
  ASSERT_TRUE(found);
  EXPECT_THAT(found->formats, ElementsAre(format::Format::custom_labels_v1));
  EXPECT_FALSE(found->has_context);
  EXPECT_EQ(found->service, "");
  EXPECT_EQ(found->threads, 1u);
  EXPECT_EQ(found->comm, "ps_labels_subje");
  EXPECT_THAT(found->problems, IsEmpty());
}

TEST(Ps, FindsWhatPublishesAContext) {
  const Subject subject = start(PLAIN_SUBJECT, "context");
  const auto found = find(listed(), subject.child.pid());
  ASSERT_TRUE(found);
  EXPECT_THAT(found->formats, IsEmpty());
  EXPECT_TRUE(found->has_context);
  EXPECT_EQ(found->service, "checkout");
}

TEST(Ps, LeavesOutWhatPublishesNothing) {
  const Subject subject = start(PLAIN_SUBJECT, "nothing");
  const PublisherList list = listed();
  EXPECT_FALSE(find(list, subject.child.pid()));
  EXPECT_GE(list.looked_at, 2u);
}

TEST(Ps, LeavesOutAVforkChildThatBorrowsItsParentsMemory) {
  const Subject subject = start(LABELS_SUBJECT, "vfork");
  ASSERT_NE(subject.other, 0);
  const PublisherList list = listed();
  EXPECT_TRUE(find(list, subject.child.pid()));
  EXPECT_FALSE(find(list, subject.other));
}

TEST(Ps, KeepsAForkedChildWhichHasMemoryOfItsOwn) {
  const Subject subject = start(LABELS_SUBJECT, "fork");
  ASSERT_NE(subject.other, 0);
  const PublisherList list = listed();
  const auto parent = find(list, subject.child.pid());
  const auto child = find(list, subject.other);
  ASSERT_TRUE(parent && child);
  EXPECT_TRUE(parent->has_context);
  EXPECT_FALSE(child->has_context) << "its mapping is not inherited";
  EXPECT_THAT(child->formats, ElementsAre(format::Format::custom_labels_v1));
}

TEST(Ps, IsFastAmongHundredsOfProcesses) {
  std::vector<Child> sleepers;
  for (int i = 0; i < 300; ++i) sleepers.push_back(Child::spawn({"sleep", "100"}));
  const auto begin = std::chrono::steady_clock::now();
  const PublisherList list = listed();
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(list.looked_at, 300u);
  EXPECT_LT(took, std::chrono::seconds(2));  // some 60 ms on an idle machine
  RecordProperty("milliseconds", static_cast<int>(took / std::chrono::milliseconds(1)));
}

}  // namespace
}  // namespace vitrine::observe
