// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Samples of threads that are off their CPUs. They are kept, in blocks of a pool, until it is known for how long.
#pragma once

#include "bpf/kernel/profile/wakers.bpf.h"
#ifdef UNWINDS
#include "bpf/kernel/profile/known_wait.bpf.h"
#endif

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
  entry->row = s->row.own.key;
#else
  entry->row.words[0] = 0;
#endif
  bpf_loop(wanted, fill_block, &walk, 0);
  if (entry->blocks < wanted) {  // it is counted when it is known whether it was long enough
    free_all(entry);
    entry->bytes = 0;
    tally(VITRINE_PROFILE_WAITING_FULL, 1);
  }
}

/// Fills s->pending, of a thread that has no entry.
static __always_inline void fill_pending(struct scratch* s, __u64 bytes, __u64 since) {
  s->pending.since_ns = since;
  s->pending.blocks = 0;
  s->pending.memo = 0;
  fill_entry(s, &s->pending, bytes);
}

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
  s->row.own.key = entry->row;
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
    tally(VITRINE_PROFILE_SAMPLES, 1);
    tally(VITRINE_PROFILE_LOST, !sent);
  }
  release_scratch(s);
}

#ifdef UNWINDS

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
  tally(VITRINE_PROFILE_WAITING_FULL, 1);
  tally(VITRINE_PROFILE_SAMPLES, 1);
  tally(VITRINE_PROFILE_LOST, 1);
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
    tally(VITRINE_PROFILE_SHORT_BLOCKS, 1);
  } else {
    tally(VITRINE_PROFILE_SAMPLES, 1);
    if (!send_pending(entry, waking_of(entry, tid), since, off_ns)) tally(VITRINE_PROFILE_LOST, 1);
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
