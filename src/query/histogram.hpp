// Histograms: how many values fell into each bucket of buckets.h.
#pragma once

#include <cstdint>
#include <vector>

#include "query/number.hpp"

namespace vitrine::query {

class Histogram {
 public:
  struct Bucket {
    std::int32_t index = 0;  ///< vitrine_bucket_of()
    std::uint64_t count = 0;
    bool operator==(const Bucket&) const = default;
  };

  /// A fraction counts as the next integer below it; what 64 bits do not hold, as their last.
  void add(const Number& value);
  void add(std::int32_t bucket, std::uint64_t count);
  void add(const Histogram& other);

  bool empty() const { return buckets_.empty(); }
  std::uint64_t count() const;
  /// By value, none empty.
  const std::vector<Bucket>& buckets() const { return buckets_; }

  /// The value that a share of all (0 to 1) do not exceed, interpolated in its bucket: right to an
  /// eighth of itself. 0 when empty.
  double percentile(double share) const;

  bool operator==(const Histogram&) const = default;

 private:
  std::vector<Bucket> buckets_;
};

/// The least and the largest integer of a bucket.
struct BucketRange {
  Number low;
  Number high;
};
BucketRange range_of(std::int32_t bucket);

}  // namespace vitrine::query
