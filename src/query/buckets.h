/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The buckets of histograms: log-linear, eight to each power of two, so that a value is known to
 * an eighth of itself; up to 16 each has its own. Negative numbers have buckets of their own, by
 * their magnitude. Plain C, the same in the kernel and in user space. */
#pragma once

#include <linux/types.h>

#define VITRINE_BUCKET_BITS 3 /* sub-buckets of a power of two: 8 */

static inline __attribute__((always_inline)) __u32 vitrine_top_bit(__u64 value) {
  __u32 bit = 0;
  if (value >> 32) bit += 32, value >>= 32;
  if (value >> 16) bit += 16, value >>= 16;
  if (value >> 8) bit += 8, value >>= 8;
  if (value >> 4) bit += 4, value >>= 4;
  if (value >> 2) bit += 2, value >>= 2;
  return bit + (value >> 1 ? 1 : 0);
}

/* 0 to 495. */
static inline __attribute__((always_inline)) __u32 vitrine_bucket_of_magnitude(__u64 value) {
  if (value < (1 << VITRINE_BUCKET_BITS)) return (__u32)value;
  const __u32 shift = vitrine_top_bit(value) - VITRINE_BUCKET_BITS;
  /* value >> shift is 8 to 15 */
  return (shift << VITRINE_BUCKET_BITS) + (__u32)(value >> shift);
}

/* Negative for negative numbers. `is_signed`: `value` is one in two's complement. */
static inline __attribute__((always_inline)) __s32 vitrine_bucket_of(__u64 value, int is_signed) {
  if (is_signed && (__s64)value < 0) return -1 - (__s32)vitrine_bucket_of_magnitude(0 - value);
  return (__s32)vitrine_bucket_of_magnitude(value);
}

/* The least magnitude of a bucket, and how many magnitudes there are in it; the last bucket's end
 * is 2^64, so that low + width wraps to 0. `bucket` as vitrine_bucket_of_magnitude gives it. */
static inline __u64 vitrine_bucket_low(__u32 bucket) {
  if (bucket < (2 << VITRINE_BUCKET_BITS)) return bucket;
  const __u32 shift = (bucket >> VITRINE_BUCKET_BITS) - 1;
  const __u64 steps = (1U << VITRINE_BUCKET_BITS) + (bucket & ((1U << VITRINE_BUCKET_BITS) - 1));
  return steps << shift;
}

static inline __u64 vitrine_bucket_width(__u32 bucket) {
  if (bucket < (2 << VITRINE_BUCKET_BITS)) return 1;
  return 1ULL << ((bucket >> VITRINE_BUCKET_BITS) - 1);
}
