// How long the pauses between tries are.
#include <gtest/gtest.h>

#include <set>

#include "export/http.hpp"

namespace vitrine::exporter {
namespace {

using namespace std::chrono_literals;

TEST(Backoff, DoublesUpToItsBound) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Backoff backoff(1s, 8s, seed);
    for (const auto most : {1s, 2s, 4s, 8s, 8s, 8s}) {
      const auto wait = backoff.next({});
      EXPECT_GE(wait, most / 2);
      EXPECT_LE(wait, most);
    }
    backoff.reset();
    EXPECT_LE(backoff.next({}), 1s);
  }
}

TEST(Backoff, TwoSendersDoNotWaitAlike) {
  std::set<std::chrono::milliseconds> waits;
  for (std::uint64_t seed = 0; seed < 100; ++seed) waits.insert(Backoff(10s, 60s, seed).next({}));
  EXPECT_GT(waits.size(), 90U);
}

TEST(Backoff, WaitsAtLeastAsAsked) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Backoff backoff(1s, 8s, seed);
    const auto wait = backoff.next(30s);
    EXPECT_GE(wait, 30s);
    EXPECT_LE(wait, 31s);
  }
}

TEST(Backoff, NobodySilencesUsForADay) {
  Backoff backoff(1s, 8s, 1);
  EXPECT_LE(backoff.next(std::chrono::hours(24)), longest_retry_after + 1s);
  EXPECT_GE(backoff.next(std::chrono::seconds(-5)), 0s);
}

}  // namespace
}  // namespace vitrine::exporter
