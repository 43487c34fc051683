#include <gtest/gtest.h>

#include <random>

#include "symbol/function_symbols.hpp"

namespace vitrine::symbol {
namespace {

TEST(Intervals, InnermostWins) {
  Intervals intervals;
  intervals.add(100, 200, 1, 1);
  intervals.add(120, 150, 2, 2);
  intervals.add(130, 140, 3, 3);
  intervals.add(200, 210, 4, 1);
  intervals.build();
  EXPECT_EQ(intervals.find(99), std::nullopt);
  EXPECT_EQ(intervals.find(100), 1U);
  EXPECT_EQ(intervals.find(120), 2U);
  EXPECT_EQ(intervals.find(139), 3U);
  EXPECT_EQ(intervals.find(140), 2U);
  EXPECT_EQ(intervals.find(150), 1U);
  EXPECT_EQ(intervals.find(200), 4U);
  EXPECT_EQ(intervals.find(210), std::nullopt);
}

TEST(Intervals, EmptyAndReversedOnesAreNothing) {
  Intervals intervals;
  intervals.add(5, 5, 1, 1);
  intervals.add(9, 7, 2, 1);
  intervals.build();
  EXPECT_EQ(intervals.find(5), std::nullopt);
  EXPECT_EQ(intervals.find(8), std::nullopt);
}

// Against the plain definition, over intervals of every kind of overlap.
TEST(Intervals, EqualTheirDefinition) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    struct One {
      Address start, end;
      std::uint64_t priority;
    };
    std::vector<One> all;
    Intervals intervals;
    for (std::uint32_t i = 0; i < 30; ++i) {
      const One one{random() % 100, random() % 100, random() % 5};
      all.push_back(one);
      intervals.add(one.start, one.end, i, one.priority);
    }
    intervals.build();
    for (Address address = 0; address < 100; ++address) {
      // Of equal priority the one added last wins; pieces that start together keep that order.
      std::optional<std::uint32_t> expected;
      for (std::uint32_t i = 0; i < all.size(); ++i)
        if (address >= all[i].start && address < all[i].end &&
            (!expected || all[i].priority > all[*expected].priority))
          expected = i;
      const auto found = intervals.find(address);
      ASSERT_EQ(found.has_value(), expected.has_value()) << round << " " << address;
      if (found) {
        ASSERT_EQ(all[*found].priority, all[*expected].priority) << round;
      }
    }
  }
}

}  // namespace
}  // namespace vitrine::symbol
