/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The logs by which the profiling program hands over samples that differ from a model by time, trace and span alone
 * (docs/essays/rows.md). Both sides have them mapped. */
#pragma once

#include "bpf/wire/profile.h"

/* One sample, or none, in a cache line. */
struct vitrine_span_place {
  struct vitrine_span_sample span; /* its `model` is 0: the place is free */
  __u64 reserved[2];
};

typedef __u64 __attribute__((may_alias)) vitrine_span_word;

#define VITRINE_SPAN_LAST_WORD 5 /* of a vitrine_span_sample: `model` and `row`, written last */

#if defined(__bpf__)
#define VITRINE_SPAN_PUBLISH(into, value) __sync_lock_test_and_set(into, value)
#else
#define VITRINE_SPAN_PUBLISH(into, value) __atomic_store_n(into, value, __ATOMIC_RELEASE)
#endif

/* By the program that owns the log. Returns whether the place was free. */
static inline __attribute__((always_inline)) int vitrine_span_put(
    struct vitrine_span_place* place, const struct vitrine_span_sample* span) {
  vitrine_span_word* into = (vitrine_span_word*)place;
  const vitrine_span_word* from = (const vitrine_span_word*)span;
  if (VITRINE_ROW_LOAD(into + VITRINE_SPAN_LAST_WORD) != 0) return 0;
  VITRINE_ROW_STORE(into, from[0]);
  VITRINE_ROW_STORE(into + 1, from[1]);
  VITRINE_ROW_STORE(into + 2, from[2]);
  VITRINE_ROW_STORE(into + 3, from[3]);
  VITRINE_ROW_STORE(into + 4, from[4]);
  VITRINE_SPAN_PUBLISH(into + VITRINE_SPAN_LAST_WORD, from[VITRINE_SPAN_LAST_WORD]);
  return 1;
}

#if !defined(__bpf__)
/* By the reader. Returns whether there is one; it stays until vitrine_span_free(). */
static inline int vitrine_span_get(struct vitrine_span_place* place,
                                   struct vitrine_span_sample* span) {
  const vitrine_span_word* from = (const vitrine_span_word*)place;
  vitrine_span_word* into = (vitrine_span_word*)span;
  const __u64 last = __atomic_load_n(from + VITRINE_SPAN_LAST_WORD, __ATOMIC_ACQUIRE);
  if (last == 0) return 0;
  for (int i = 0; i < VITRINE_SPAN_LAST_WORD; ++i) into[i] = VITRINE_ROW_LOAD(from + i);
  into[VITRINE_SPAN_LAST_WORD] = last;
  return 1;
}

static inline void vitrine_span_free(struct vitrine_span_place* place) {
  __atomic_store_n((vitrine_span_word*)place + VITRINE_SPAN_LAST_WORD, (__u64)0, __ATOMIC_RELEASE);
}
#endif
