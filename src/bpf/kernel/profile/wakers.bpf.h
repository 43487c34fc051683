// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// What woke a thread: a sample of the thread that did, taken when it did, kept until the one that was woken
// is on a CPU again (docs/essays/rows.md, "Wakers of threads").
#pragma once

#include "bpf/kernel/profile/blocks.bpf.h"
#include "bpf/kernel/profile/take_sample.bpf.h"

#ifdef UNWINDS

/// By the thread that is woken, in the initial pid namespace: by what it was woken last. Written by the CPU
/// that wakes it, which has its lock (pi_lock); taken by the CPU that switches to it, when no other can wake
/// it until it sleeps again.
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct vitrine_pending);
} wakings SEC(".maps");

static __always_inline void drop_waking(__u32 tid) {
  if (!profile_config.wakers) return;
  struct vitrine_pending* waking = bpf_map_lookup_elem(&wakings, &tid);
  if (!waking) return;
  free_all(waking);
  bpf_map_delete_elem(&wakings, &tid);
}

/// Where the waker's sample is behind one of `bytes` bytes.
static __always_inline __u64 waker_at(__u64 bytes) {
  return (bytes + 7) & ~7ULL;
}

/// What ended the wait of this entry; null: none is reported, or it is not known, and counted.
static __always_inline struct vitrine_pending* waking_of(const struct vitrine_pending* entry,
                                                         __u32 tid) {
  if (!profile_config.wakers || !entry->sleeps) return 0;
  struct vitrine_pending* waking = bpf_map_lookup_elem(&wakings, &tid);
  if (waking && waking->bytes && waker_at(entry->bytes) + waking->bytes <= SAMPLE_BYTES)
    return waking;
  tally(VITRINE_PROFILE_NO_WAKER, 1);
  return 0;
}

/// The row of a wait with that waker, of which s->row.own names the wait.
static __always_inline void name_woken_row(struct scratch* s,
                                           const struct vitrine_pending* waking) {
  struct vitrine_row_key* key = &s->row.own.key;
  const int is_known = key->words[0] && waking->row.words[0];
  struct row_hash* hash = &s->row.hash[HASH_OF_ROW];
  begin_row_hash(hash);
  hash->word[0] = key->words[0];
  hash->word[1] = key->words[1];
  hash->word[2] = waking->row.words[0];
  hash->word[3] = waking->row.words[1];
  hash->queued = 4;
  hash_queued(s, HASH_OF_ROW);
  end_key(&hash->state, key, 4);
  if (!is_known) key->words[0] = 0;
}

/// Its sample, behind the first `bytes` of the one in s->room.out. Returns how many bytes both have.
static __always_inline __u64 take_waking(struct scratch* s, __u64 bytes,
                                         struct vitrine_pending* waking) {
  struct taking_blocks walk = {.s = s, .entry = waking, .at = waker_at(bytes)};
  bpf_loop(waking->blocks, take_block, &walk, 0);
  struct vitrine_stack_sample* head = sample_at(&s->room.out, walk.at);
  if (!head) return bytes;
  head->event.epoch = config.epoch;  // as of the wait
  return walk.at + waking->bytes;
}

#else

static __always_inline void drop_waking(__u32 tid) {}

static __always_inline struct vitrine_pending* waking_of(const struct vitrine_pending* entry,
                                                         __u32 tid) {
  return 0;
}

static __always_inline __u64 take_waking(struct scratch* s, __u64 bytes,
                                         const struct vitrine_pending* waking) {
  return bytes;
}

#endif
