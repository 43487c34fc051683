#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "query/buckets.h"
#include "query/reduction.hpp"

namespace vitrine::query {
namespace {

TEST(Buckets, CoverEveryValueOnceAndNarrowly) {
  std::vector<std::uint64_t> values;
  for (std::uint64_t v = 0; v < 5000; ++v) values.push_back(v);
  for (int power = 3; power < 64; ++power)
    for (std::int64_t near = -2; near <= 2; ++near)
      values.push_back((std::uint64_t{1} << power) + static_cast<std::uint64_t>(near));
  values.push_back(~std::uint64_t{0});
  std::sort(values.begin(), values.end());
  std::int32_t last = 0;
  for (const std::uint64_t value : values) {
    const std::int32_t bucket = vitrine_bucket_of(value, 0);
    EXPECT_GE(bucket, last);
    EXPECT_LE(bucket, 495);
    last = bucket;
    const BucketRange range = range_of(bucket);
    EXPECT_TRUE(compare(range.low, value) <= 0 && compare(range.high, value) >= 0) << value;
    EXPECT_LE(to_double(range.high) - to_double(range.low), to_double(range.low) / 8) << value;
  }
}

TEST(Buckets, MirrorNegativeValues) {
  for (const std::int64_t value : {std::int64_t{-1}, std::int64_t{-7}, std::int64_t{-1000},
                                   std::numeric_limits<std::int64_t>::min()}) {
    const std::int32_t bucket = vitrine_bucket_of(static_cast<std::uint64_t>(value), 1);
    EXPECT_LT(bucket, 0);
    const BucketRange range = range_of(bucket);
    EXPECT_TRUE(compare(range.low, value) <= 0 && compare(range.high, value) >= 0) << value;
    EXPECT_TRUE(compare(range.low, range.high) <= 0);
  }
}

TEST(Buckets, OfNonsenseAreTheLast) {
  EXPECT_TRUE(compare(range_of(std::numeric_limits<std::int32_t>::max()).high, ~std::uint64_t{0}) ==
              0);
  EXPECT_TRUE(compare(range_of(std::numeric_limits<std::int32_t>::min()).low,
                      std::numeric_limits<std::int64_t>::min()) == 0);
}

TEST(Histogram, CountsAndAdds) {
  Histogram a, b;
  for (const double value : {1.0, 1.5, 100.0, -0.5}) a.add(value);
  b.add(std::int64_t{1});
  b.add(std::nan(""));
  a.add(b);
  EXPECT_EQ(a.count(), 5U) << "NaN is in no bucket";
  ASSERT_EQ(a.buckets().size(), 3U);
  EXPECT_EQ(a.buckets()[0].index, vitrine_bucket_of(~std::uint64_t{0}, 1)) << "-0.5 counts as -1";
  EXPECT_EQ(a.buckets()[1], (Histogram::Bucket{1, 3}));
}

TEST(Histogram, PercentilesAreRightToAnEighth) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> latencies(10, 2);
  Histogram histogram;
  std::vector<std::int64_t> values;
  for (int i = 0; i < 20'000; ++i) {
    values.push_back(static_cast<std::int64_t>(latencies(random)));
    histogram.add(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double share : {0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto rank = static_cast<std::size_t>(share * static_cast<double>(values.size() - 1));
    const auto exact = static_cast<double>(values[rank]);
    EXPECT_NEAR(histogram.percentile(share), exact, exact / 8 + 1) << share;
  }
  EXPECT_EQ(Histogram().percentile(0.5), 0);
}

}  // namespace
}  // namespace vitrine::query
