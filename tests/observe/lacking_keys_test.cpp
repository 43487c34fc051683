// Processes that lack names of keys are looked at until they have them, a bounded number of them at once.
#include "observe/events/lacking_keys.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vitrine::observe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Look {
  std::uint64_t schema = 0;
  int looks = 0;

  std::uint64_t look_for_schema() {
    ++looks;
    return schema;
  }
};

TEST(LackingKeys, AreNamedWhenTheProcessHasDeclaredOthers) {
  const auto one = std::make_shared<Look>(), other = std::make_shared<Look>();
  LackingKeys<Look> lacking(10, 10);
  lacking.add(1, one, 0);
  lacking.add(2, other, 0);
  EXPECT_THAT(lacking.take_named(), IsEmpty());
  one->schema = 1;
  EXPECT_THAT(lacking.take_named(), ElementsAre(1));
  EXPECT_THAT(lacking.take_named(), IsEmpty()) << "once";
  EXPECT_FALSE(lacking.empty());
}

// A process that has executed another program is looked at in the new one, and what it declared last counts.
TEST(LackingKeys, AreReplacedAlsoWhenThereIsNoRoomForMore) {
  const auto before = std::make_shared<Look>(), now = std::make_shared<Look>();
  LackingKeys<Look> lacking(1, 10);
  lacking.add(1, before, 0);
  lacking.add(2, before, 0);  // no room
  now->schema = 7;
  lacking.add(1, now, 7);
  EXPECT_THAT(lacking.take_named(), IsEmpty());
  EXPECT_EQ(before->looks, 0);
  EXPECT_EQ(now->looks, 1);
  now->schema = 8;
  EXPECT_THAT(lacking.take_named(), ElementsAre(1));
}

TEST(LackingKeys, AreLookedAtInTurnAndForgottenWithTheirProcess) {
  std::vector<std::shared_ptr<Look>> looks;
  LackingKeys<Look> lacking(10, 2);
  for (pid_t pid = 1; pid <= 5; ++pid)
    lacking.add(pid, looks.emplace_back(std::make_shared<Look>()), 0);
  for (int i = 0; i < 5; ++i) EXPECT_THAT(lacking.take_named(), IsEmpty());
  for (const auto& look : looks) EXPECT_EQ(look->looks, 2);
  looks.clear();
  EXPECT_THAT(lacking.take_named(), IsEmpty());
  EXPECT_TRUE(lacking.empty());
}

}  // namespace
}  // namespace vitrine::observe
