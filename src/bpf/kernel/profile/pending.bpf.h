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

/// Returns since when its thread was off; 0: another CPU was first.
static __always_inline __u64 claim_pending(struct vitrine_pending* entry) {
  return __sync_lock_test_and_set(&entry->since_ns, 0);
}

/// Fills the entry, with the sample of `bytes` bytes in s->room.out, but for its time.
static __always_inline void fill_entry(struct scratch* s, struct vitrine_pending* entry,
                                       __u64 bytes) {
  const __u32 wanted = (bytes + VITRINE_BLOCK_BYTES - 1) / VITRINE_BLOCK_BYTES;
  struct block_walk walk = {.s = s, .entry = entry};
  entry->has_memo = 0;
  entry->bytes = bytes;
  entry->sleeps =
      !(((struct vitrine_stack_sample*)s->room.out.bytes)->event.flags & VITRINE_SAMPLE_PREEMPTED);
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

/// Fills s->pending, of a thread that has no entry.
static __always_inline void fill_pending(struct scratch* s, __u64 bytes, __u64 since) {
  s->pending.since_ns = since;
  s->pending.blocks = 0;
  s->pending.memo = 0;
  fill_entry(s, &s->pending, bytes);
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

#include "bpf/kernel/profile/wakers.bpf.h"

/// Sends the first `bytes` of what was kept, which is in s->room.out. Returns whether it had room.
static __always_inline int send_blocks(struct scratch* s, __u64 bytes, __u64 off_ns, __u32 flags) {
  struct vitrine_stack_sample* head = (struct vitrine_stack_sample*)s->room.out.bytes;
  head->off_ns = off_ns;
  head->event.flags |= flags;
  head->event.epoch = config.epoch;  // it has all of its label sets with it
  return send_sample(s, bytes, 0);
}

/// Whether the sample of an entry has been added to its row. `waking`: null: none is reported.
static __always_inline int is_pending_added(struct scratch* s, const struct vitrine_pending* entry,
                                            const struct vitrine_pending* waking, __u64 since,
                                            __u64 off_ns) {
#ifdef UNWINDS
  s->row.key = entry->row;
  if (waking) name_woken_row(s, waking);
#endif
  return is_added(s, since, off_ns, 0);
}

/// Of an entry that this CPU has claimed. Returns whether it had room.
static __always_inline int send_pending(struct vitrine_pending* entry,
                                        struct vitrine_pending* waking, __u64 since, __u64 off_ns) {
  struct scratch* s = claim_scratch();
  if (!s) return 0;
  struct taking_blocks walk = {.s = s, .entry = entry};
  int sent = is_pending_added(s, entry, waking, since, off_ns);
  if (!sent && entry->bytes) {
    bpf_loop(entry->blocks, take_block, &walk, 0);
    __u64 bytes = entry->bytes;
    if (waking) bytes = take_waking(s, bytes, waking);
    sent = send_blocks(s, bytes, off_ns, 0);
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
  struct taking_blocks walk = {.s = s, .entry = &s->pending};
  bpf_loop(s->pending.blocks, take_block, &walk, 0);
  // If it is still the same stretch now, these blocks were its own.
  if (__sync_val_compare_and_swap(&entry->since_ns, since, now) == since) {
    const __u64 off_ns = now - since;
    int sent = is_pending_added(s, &s->pending, 0, since, off_ns);
    if (!sent && s->pending.bytes)
      sent = send_blocks(s, s->pending.bytes, off_ns, VITRINE_SAMPLE_UNFINISHED);
    else if (!sent)
      give_row_up(s);
    count(VITRINE_PROFILE_SAMPLES, 1);
    count(VITRINE_PROFILE_LOST, !sent);
  }
  release_scratch(s);
}

/// By a thread that is on its CPU: a sample without a copy of its stack fits.
#define KEPT_BLOCKS 2

#ifdef UNWINDS

#include "bpf/kernel/profile/known_wait.bpf.h"

/// Keeps the sample of `bytes` bytes in s->room.out until the current thread comes back. A function: what it has on
/// its stack is not there while a sample is taken.
static __noinline int keep_pending(struct scratch* s, __u32 tid, __u64 bytes, __u64 now) {
  struct vitrine_pending* entry = bpf_map_lookup_elem(&pending, &tid);
  if (entry) {
    claim_pending(entry);  // it has a time only if its coming back was not seen
    learn_wait_of(s, entry, bytes);
    fill_entry(s, entry, bytes);
    if (entry->bytes) keep_learnt_wait(s, entry);
    __sync_lock_test_and_set(&entry->since_ns, now);
    return 0;
  }
  fill_pending(s, bytes, now);
  if (bpf_map_update_elem(&pending, &tid, &s->pending, BPF_NOEXIST) == 0) return 0;
  free_all(&s->pending);
  count(VITRINE_PROFILE_WAITING_FULL, 1);
  count(VITRINE_PROFILE_SAMPLES, 1);
  count(VITRINE_PROFILE_LOST, 1);
  return 0;
}

/// The thread has a CPU again. A function: what it has on its stack is not there while a sample is taken.
static __noinline int end_pending(__u32 tid, __u64 now) {
  struct vitrine_pending* entry = bpf_map_lookup_elem(&pending, &tid);
  if (!entry) return 0;
  const __u64 since = claim_pending(entry);
  if (!since) return 0;
  const __u64 off_ns = now > since ? now - since : 0;
  if (off_ns < profile_config.min_block_ns) {
    count(VITRINE_PROFILE_SHORT_BLOCKS, 1);
  } else {
    count(VITRINE_PROFILE_SAMPLES, 1);
    if (!send_pending(entry, waking_of(entry, tid), since, off_ns)) count(VITRINE_PROFILE_LOST, 1);
  }
  if (entry->sleeps) drop_waking(tid);
  // All samples are copied, to compare: what they follow from is compared, too.
  const int is_compared = profile_config.unwinds == VITRINE_UNWINDS_AND_COPIES;
  if (entry->blocks > KEPT_BLOCKS && !is_compared) free_all(entry);
  return 0;
}

/// The thread has ended.
static __always_inline void drop_pending(__u32 tid) {
  drop_waking(tid);
  struct vitrine_pending* entry = bpf_map_lookup_elem(&pending, &tid);
  if (!entry) return;
  claim_pending(entry);
  free_all(entry);
  if (entry->memo) free_memo(entry->memo - 1);
  bpf_map_delete_elem(&pending, &tid);
}

#endif
