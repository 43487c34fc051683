/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The rows in which the profiling program adds equal samples up (docs/essays/rows.md), and what it does
 * with them. Both sides have them mapped. */
#pragma once

#include "bpf/wire/wire.h"

#define VITRINE_ROW_CELLS 8           /* a power of two */
#define VITRINE_ROW_TRIES 8           /* places where a row can be */
#define VITRINE_ROW_COUNT_BITS 16     /* of a sum */
#define VITRINE_ROW_SAMPLES (1 << 15) /* most that are added up in a cell */
#define VITRINE_ROW_SUM (1ULL << 62)  /* most of a sum, and of what is added to it */

/* The samples of one stretch of time. */
struct vitrine_row_cell {
  __u64 time_ns; /* of the first */
  __u64 sum;     /* their time off the CPU << VITRINE_ROW_COUNT_BITS | how many; 0: none */
};

struct vitrine_row {
  __u64 key[2]; /* first 0: the row is free; second 0: its content has not been sent yet */
  struct vitrine_row_cell cells[VITRINE_ROW_CELLS];
};

/* What samples are equal by: two parts of one keyed hash, neither 0. */
struct vitrine_row_key {
  __u64 words[2];
};

/* The other side may write at the same time. */
#if defined(__bpf__)
#define VITRINE_ROW_LOAD(from) (*(volatile __u64*)(from))
#define VITRINE_ROW_STORE(into, value) (*(volatile __u64*)(into) = (value))
#else
#define VITRINE_ROW_LOAD(from) __atomic_load_n(from, __ATOMIC_RELAXED)
#define VITRINE_ROW_STORE(into, value) __atomic_store_n(into, value, __ATOMIC_RELAXED)
#endif

enum vitrine_row_found {
  VITRINE_ROW_OTHER,   /* the row is of other samples */
  VITRINE_ROW_BUSY,    /* it is being made on another CPU */
  VITRINE_ROW_CLAIMED, /* it is the caller's to make: vitrine_row_finish */
  VITRINE_ROW_KNOWN,
  VITRINE_ROW_ADDED, /* known, and the sample is in it */
};

/* Where a row is looked for: `half` is how many rows a generation has, a power of two. */
static inline __attribute__((always_inline)) __u32 vitrine_row_place(
    const struct vitrine_row_key* key, __u32 generation, __u32 half, __u32 attempt) {
  return (generation & 1) * half + (((__u32)(key->words[0] >> 1) + attempt) & (half - 1));
}

/* While a generation follows another at a time, as where an interval ends: that time, and which generation begins there.
 * In one word: a program that is interrupted between its two looks, at the generation and at this, cannot take the
 * boundary of another one for that of the one it has read. */
#define VITRINE_ROW_BOUNDARY_BITS 2 /* of the generation */

static inline __attribute__((always_inline)) __u64 vitrine_row_boundary(__u64 time_ns,
                                                                        __u32 generation) {
  return time_ns << VITRINE_ROW_BOUNDARY_BITS |
         (generation & ((1 << VITRINE_ROW_BOUNDARY_BITS) - 1));
}

/* The generation of a sample of this time. `generation` was read before `boundary`; that is 0 where there is none. One
 * that was read before the next began is right. */
static inline __attribute__((always_inline)) __u32 vitrine_row_generation(__u32 generation,
                                                                          __u64 boundary,
                                                                          __u64 time_ns) {
  const int is_new = ((boundary ^ generation) & ((1 << VITRINE_ROW_BOUNDARY_BITS) - 1)) == 0;
  return generation - (is_new && time_ns < boundary >> VITRINE_ROW_BOUNDARY_BITS);
}

/* Returns an enum vitrine_row_found. */
static inline __attribute__((always_inline)) __u32 vitrine_row_try(
    struct vitrine_row* row, const struct vitrine_row_key* key) {
  __u64 first = VITRINE_ROW_LOAD(&row->key[0]);
  if (first == 0) first = __sync_val_compare_and_swap(&row->key[0], 0, key->words[0]);
  if (first == 0) return VITRINE_ROW_CLAIMED;
  if (first != key->words[0]) return VITRINE_ROW_OTHER;
  return VITRINE_ROW_LOAD(&row->key[1]) == key->words[1] ? VITRINE_ROW_KNOWN : VITRINE_ROW_BUSY;
}

/* The claimed row's content has been sent, or had no room. */
static inline __attribute__((always_inline)) void vitrine_row_finish(
    struct vitrine_row* row, const struct vitrine_row_key* key, int sent) {
  if (sent)
    __sync_lock_test_and_set(&row->key[1], key->words[1]);
  else
    __sync_lock_test_and_set(&row->key[0], 0);
}

/* Adds a sample to a known row. `bits`: of the length of a cell's time, in ns. Returns whether it had
 * room. */
static inline __attribute__((always_inline)) int vitrine_row_add(struct vitrine_row* row,
                                                                 __u64 time_ns, __u32 bits,
                                                                 __u64 off_ns) {
  const __u64 stretch = time_ns >> (bits & 63);
  const __u64 more = off_ns << VITRINE_ROW_COUNT_BITS | 1;
  __u64 at = stretch;
  __asm__ volatile("" : "+r"(at)); /* for the verifier, to see its bound */
  struct vitrine_row_cell* cell = &row->cells[at & (VITRINE_ROW_CELLS - 1)];
  const __u64 sum = VITRINE_ROW_LOAD(&cell->sum);
  if (off_ns >= VITRINE_ROW_SUM >> VITRINE_ROW_COUNT_BITS) return 0;
  if (sum == 0)
    VITRINE_ROW_STORE(&cell->time_ns, time_ns);
  else if (VITRINE_ROW_LOAD(&cell->time_ns) >> (bits & 63) != stretch || sum >= VITRINE_ROW_SUM ||
           (sum & ((1 << VITRINE_ROW_COUNT_BITS) - 1)) >= VITRINE_ROW_SAMPLES)
    return 0;
  /* With its result used, it is a barrier on every machine. */
  return (__sync_fetch_and_add(&cell->sum, more) & 0) == 0;
}
