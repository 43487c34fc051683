#include "query/histogram.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "query/buckets.h"

namespace vitrine::query {
namespace {

std::int32_t bucket_of(const Number& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value))
    return vitrine_bucket_of(static_cast<std::uint64_t>(*number), 1);
  if (const auto* number = std::get_if<std::uint64_t>(&value)) return vitrine_bucket_of(*number, 0);
  const double below = std::floor(std::get<double>(value));
  if (!(below >= -0x1p63)) return bucket_of(std::numeric_limits<std::int64_t>::min());  // NaN, too
  if (below < 0) return bucket_of(static_cast<std::int64_t>(below));
  if (below >= 0x1p64) return bucket_of(std::numeric_limits<std::uint64_t>::max());
  return bucket_of(static_cast<std::uint64_t>(below));
}

}  // namespace

BucketRange range_of(std::int32_t bucket) {
  const bool negative = bucket < 0;
  constexpr std::int32_t last = 495;  // of buckets.h: that of 2^64 - 1
  const auto magnitude =
      static_cast<std::uint32_t>(std::min(negative ? -1 - bucket : bucket, last));
  const std::uint64_t low = vitrine_bucket_low(magnitude);
  const std::uint64_t high = low + (vitrine_bucket_width(magnitude) - 1);
  if (!negative) return {narrowest(low), narrowest(high)};
  // The magnitude of the least int64_t is the largest there is here.
  constexpr std::uint64_t most = std::uint64_t{1} << 63;
  return {static_cast<std::int64_t>(0 - std::min(high, most)),
          static_cast<std::int64_t>(0 - std::min(low, most))};
}

void Histogram::add(const Number& value) {
  add(bucket_of(value), 1);
}

void Histogram::add(std::int32_t bucket, std::uint64_t count) {
  if (count == 0) return;
  const auto at = std::lower_bound(
      buckets_.begin(), buckets_.end(), bucket,
      [](const Bucket& known, std::int32_t wanted) { return known.index < wanted; });
  if (at != buckets_.end() && at->index == bucket) {
    at->count += count;
  } else {
    buckets_.insert(at, {bucket, count});
  }
}

void Histogram::add(const Histogram& other) {
  for (const Bucket& bucket : other.buckets_) add(bucket.index, bucket.count);
}

std::uint64_t Histogram::count() const {
  return std::accumulate(
      buckets_.begin(), buckets_.end(), std::uint64_t{0},
      [](std::uint64_t sum, const Bucket& bucket) { return sum + bucket.count; });
}

double Histogram::percentile(double share) const {
  if (buckets_.empty()) return 0;
  const double rank = std::clamp(share, 0.0, 1.0) * static_cast<double>(count());
  double before = 0;
  for (const Bucket& bucket : buckets_) {
    const auto here = static_cast<double>(bucket.count);
    if (before + here >= rank) {
      const BucketRange range = range_of(bucket.index);
      const double low = to_double(range.low);
      return low + (to_double(range.high) - low) * std::max(0.0, rank - before) / here;
    }
    before += here;
  }
  return to_double(range_of(buckets_.back().index).high);
}

}  // namespace vitrine::query
