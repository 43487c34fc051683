// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Samples of threads that are off their CPUs. They are kept until it is known for how long: in blocks
// of a pool, so that what waits takes no more room than it has.
#pragma once

#include "bpf/kernel/profile/take_sample.bpf.h"

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

/// By thread, in the initial pid namespace. One thing happens to a thread at a time, but it may come
/// back while others look at it: the CPU that takes the time off an entry has its blocks
/// (claim_pending).
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

static long fill_block(__u32 index, void* context) {
  struct block_walk* walk = context;
  if (index >= VITRINE_BLOCKS) return 1;
  __u32 number = 0;
  if (!claim_block(&number)) return 1;
  walk->entry->block[index] = number;
  walk->entry->blocks = index + 1;
  struct block* block = bpf_map_lookup_elem(&blocks, &number);
  const void* from = sample_at(&walk->s->room.out, index * VITRINE_BLOCK_BYTES);
  if (!block || !from) return 1;
  bpf_probe_read_kernel(block, sizeof *block, from);
  return 0;
}

/// Returns since when its thread was off; 0: another CPU was first.
static __always_inline __u64 claim_pending(struct vitrine_pending* entry) {
  return __sync_lock_test_and_set(&entry->since_ns, 0);
}

/// Fills s->pending, with the sample of `bytes` bytes in s->room.out.
static __always_inline void fill_pending(struct scratch* s, __u64 bytes, __u64 since) {
  struct vitrine_pending* entry = &s->pending;
  const __u32 wanted = (bytes + VITRINE_BLOCK_BYTES - 1) / VITRINE_BLOCK_BYTES;
  struct block_walk walk = {.s = s, .entry = entry};
  entry->since_ns = since;
  entry->bytes = bytes;
  entry->blocks = 0;
#ifdef UNWINDS
  entry->row = s->row.key;
#else
  entry->row.words[0] = 0;
#endif
  bpf_loop(wanted, fill_block, &walk, 0);
  if (entry->blocks < wanted) {  // it is counted when it is known whether it was long enough
    free_all(entry);
    entry->bytes = 0;
    count(VITRINE_PROFILE_WAITING_FULL, 1);
  }
}

/// Keeps the sample of `bytes` bytes in s->room.out until the current thread comes back.
static __always_inline void keep_pending(struct scratch* s, __u32 tid, __u64 bytes, __u64 now) {
  struct vitrine_pending* entry = &s->pending;
  fill_pending(s, bytes, now);
  struct vitrine_pending* before = bpf_map_lookup_elem(&pending, &tid);
  if (before && claim_pending(before)) free_all(before);
  if (bpf_map_update_elem(&pending, &tid, entry, BPF_ANY) == 0) return;
  free_all(entry);
  count(VITRINE_PROFILE_WAITING_FULL, 1);
  count(VITRINE_PROFILE_SAMPLES, 1);
  count(VITRINE_PROFILE_LOST, 1);
}

static long take_block(__u32 index, void* context) {
  struct block_walk* walk = context;
  if (index >= VITRINE_BLOCKS) return 1;
  const struct block* block = bpf_map_lookup_elem(&blocks, &walk->entry->block[index]);
  void* into = sample_at(&walk->s->room.out, index * VITRINE_BLOCK_BYTES);
  if (!block || !into) return 1;
  bpf_probe_read_kernel(into, sizeof *block, block);
  return 0;
}

/// Sends what was kept, which `walk` has the blocks of. Returns whether it had room.
static __always_inline int send_blocks(struct block_walk* walk, __u64 off_ns, __u32 flags) {
  struct vitrine_stack_sample* head = (struct vitrine_stack_sample*)walk->s->room.out.bytes;
  head->off_ns = off_ns;
  head->event.flags |= flags;
  head->event.epoch = config.epoch;  // it has all of its label sets with it
  return send_sample(walk->s, walk->entry->bytes, 0);
}

/// Whether the sample of an entry has been added to its row.
static __always_inline int is_pending_added(struct scratch* s, const struct vitrine_pending* entry,
                                            __u64 since, __u64 off_ns) {
#ifdef UNWINDS
  s->row.key = entry->row;
#endif
  return is_added(s, since, off_ns);
}

/// Of an entry that this CPU has claimed. Returns whether it had room.
static __always_inline int send_pending(struct vitrine_pending* entry, __u64 since, __u64 off_ns) {
  struct scratch* s = claim_scratch();
  if (!s) return 0;
  struct block_walk walk = {.s = s, .entry = entry};
  int sent = is_pending_added(s, entry, since, off_ns);
  if (!sent && entry->bytes) {
    bpf_loop(entry->blocks, take_block, &walk, 0);
    sent = send_blocks(&walk, off_ns, 0);
  } else if (!sent) {
    give_row_up(s);
  }
  release_scratch(s);
  return sent;
}

/// Sends the time of a thread that is off until `now`; what comes after is another sample's. The
/// thread may come back at any time: then all of its time is sent by end_pending.
static __always_inline void cut_pending(struct vitrine_pending* entry, __u64 now) {
  const __u64 since = *(volatile __u64*)&entry->since_ns;
  if (!since || since >= now || now - since < profile_config.min_block_ns) return;
  struct scratch* s = claim_scratch();
  if (!s) return;
  bpf_probe_read_kernel(&s->pending, sizeof s->pending, entry);
  struct block_walk walk = {.s = s, .entry = &s->pending};
  bpf_loop(s->pending.blocks, take_block, &walk, 0);
  // If it is still the same stretch now, these blocks were its own.
  if (__sync_val_compare_and_swap(&entry->since_ns, since, now) == since) {
    const __u64 off_ns = now - since;
    int sent = is_pending_added(s, &s->pending, since, off_ns);
    if (!sent && s->pending.bytes)
      sent = send_blocks(&walk, off_ns, VITRINE_SAMPLE_UNFINISHED);
    else if (!sent)
      give_row_up(s);
    count(VITRINE_PROFILE_SAMPLES, 1);
    count(VITRINE_PROFILE_LOST, !sent);
  }
  release_scratch(s);
}

/// The thread has a CPU again.
static __always_inline void end_pending(__u32 tid, __u64 now) {
  struct vitrine_pending* entry = bpf_map_lookup_elem(&pending, &tid);
  if (!entry) return;
  const __u64 since = claim_pending(entry);
  const __u64 off_ns = since && now > since ? now - since : 0;
  if (!since) {
    bpf_map_delete_elem(&pending, &tid);
    return;
  }
  if (off_ns < profile_config.min_block_ns) {
    count(VITRINE_PROFILE_SHORT_BLOCKS, 1);
  } else {
    count(VITRINE_PROFILE_SAMPLES, 1);
    if (!send_pending(entry, since, off_ns)) count(VITRINE_PROFILE_LOST, 1);
  }
  free_all(entry);
  bpf_map_delete_elem(&pending, &tid);
}
