// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The blocks that samples of waiting threads are kept in: a pool, so that what waits takes no more room than it has.
#pragma once

#include "bpf/kernel/profile/sample_state.bpf.h"

/// By a thread that is on its CPU: a sample without a copy of its stack fits.
#define KEPT_BLOCKS 2

struct block {
  __u8 bytes[VITRINE_BLOCK_BYTES];
};

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct block);
} blocks SEC(".maps");

/// Numbers of blocks that were in use and are free again. The one used last is used next, and still
/// cached.
struct {
  __uint(type, BPF_MAP_TYPE_STACK);
  __uint(max_entries, 1);
  __type(value, __u32);
} free_blocks SEC(".maps");

/// The numbers that have never been used; written by the loader. In a map, as two programs share it.
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct vitrine_unused_blocks);
} unused_blocks SEC(".maps");

/// By thread, in the initial pid namespace, from the first time that it is off its CPU until it ends. One thing
/// happens to a thread at a time, but it may come back while others look at it: the CPU that takes the time off
/// an entry (claim_pending) may use its blocks, until it or another of the thread puts a time there again.
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct vitrine_pending);
} pending SEC(".maps");

struct block_walk {
  struct scratch* s;
  struct vitrine_pending* entry;
};

static long free_block(__u32 index, void* context) {
  struct block_walk* walk = context;
  if (index >= VITRINE_BLOCKS) return 1;
  bpf_map_push_elem(&free_blocks, &walk->entry->block[index], BPF_ANY);
  return 0;
}

static __always_inline void free_all(struct vitrine_pending* entry) {
  struct block_walk walk = {.entry = entry};
  bpf_loop(entry->blocks, free_block, &walk, 0);
  entry->blocks = 0;
  entry->has_memo = 0;
}

/// Returns whether there was one.
static __always_inline int claim_block(__u32* number) {
  if (bpf_map_pop_elem(&free_blocks, number) == 0) return 1;
  const __u32 only = 0;
  struct vitrine_unused_blocks* unused = bpf_map_lookup_elem(&unused_blocks, &only);
  if (!unused || *(volatile __u32*)&unused->first >= unused->end) return 0;
  *number = __sync_fetch_and_add(&unused->first, 1);
  return *number < unused->end;
}

/// The block that the entry has already, or another.
static long fill_block(__u32 index, void* context) {
  struct block_walk* walk = context;
  if (index >= VITRINE_BLOCKS) return 1;
  __u32 number = 0;
  if (index < walk->entry->blocks) {
    number = walk->entry->block[index];
  } else {
    if (!claim_block(&number)) return 1;
    walk->entry->block[index] = number;
    walk->entry->blocks = index + 1;
  }
  struct block* block = bpf_map_lookup_elem(&blocks, &number);
  const void* from = sample_at(&walk->s->room.out, index * VITRINE_BLOCK_BYTES);
  if (!block || !from) return 1;
  bpf_probe_read_kernel(block, sizeof *block, from);
  return 0;
}

struct taking_blocks {
  struct scratch* s;
  struct vitrine_pending* entry;
  __u64 at; /* into s->room.out */
};

static long take_block(__u32 index, void* context) {
  struct taking_blocks* walk = context;
  if (index >= VITRINE_BLOCKS) return 1;
  const struct block* block = bpf_map_lookup_elem(&blocks, &walk->entry->block[index]);
  void* into = sample_at(&walk->s->room.out, walk->at + index * VITRINE_BLOCK_BYTES);
  if (!block || !into) return 1;
  bpf_probe_read_kernel(into, sizeof *block, block);
  return 0;
}
