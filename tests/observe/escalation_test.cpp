// What is taken of the readings of a thread that cannot be proven.
#include "observe/labels/escalation.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace vitrine::observe {
namespace {

using Reading = Result<format::LabelSet>;

Reading torn() {
  return fail(ErrorCode::malformed, "label array: 0x5a5a is not readable");
}

Reading whole(const char* value) {
  format::LabelSet set;
  set.labels = {{"tenant", value}};
  return set;
}

Reading cut(const char* value) {
  Reading set = whole(value);
  set->truncated = {{"value", "label 0: kept 1 of 9 bytes, the rest is not readable"}};
  return set;
}

struct Chosen {
  Reading reading;
  std::size_t reads = 0;
};

/// Of these, the last of which is read from then on.
Chosen best_of(const std::vector<Reading>& script, const std::atomic<bool>* stop = nullptr) {
  std::size_t reads = 0;
  auto best = best_of_reads([&] { return script[std::min(reads++, script.size() - 1)]; }, stop);
  return {std::move(best), reads};
}

TEST(BestOfReads, AnErrorIsReadAgain) {
  const auto chosen = best_of({torn(), torn(), whole("a"), whole("a")});
  EXPECT_EQ(chosen.reading, whole("a"));
  EXPECT_EQ(chosen.reads, 4U);
}

TEST(BestOfReads, WhatSucceededOnceIsKept) {
  EXPECT_EQ(best_of({whole("a"), torn()}).reading, whole("a"));
  EXPECT_EQ(best_of({torn(), cut("a"), torn()}).reading, cut("a"));
  EXPECT_EQ(best_of({cut("a"), whole("b"), cut("a")}).reading, whole("b"));
}

TEST(BestOfReads, TwoThatAgreeEndIt) {
  EXPECT_EQ(best_of({whole("a"), whole("a"), whole("b")}).reads, 2U);
  EXPECT_EQ(best_of({whole("a"), whole("b"), whole("b"), whole("c")}).reading, whole("b"));
}

TEST(BestOfReads, WhatIsAlwaysBrokenIsReported) {
  const auto chosen = best_of({torn()});
  ASSERT_FALSE(chosen.reading);
  EXPECT_EQ(chosen.reading.error().message, torn().error().message);
  EXPECT_EQ(chosen.reads, 4U);
}

TEST(BestOfReads, WhatAlwaysChangesIsReadSoOftenAtMost) {
  std::vector<Reading> script;
  for (int i = 0; i < 2 * max_reads_of_best; ++i) script.push_back(whole(i % 2 ? "a" : "b"));
  EXPECT_EQ(best_of(script).reads, std::size_t{max_reads_of_best});
}

TEST(BestOfReads, EndsWhenItIsStopped) {
  const std::atomic<bool> stop{true};
  EXPECT_EQ(best_of({torn(), whole("a")}, &stop).reads, 1U);
}

}  // namespace
}  // namespace vitrine::observe
