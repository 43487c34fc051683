// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// A wait that is like the thread's last one: its sample is there already, and has a row.
//
// What a sample has follows from few words: registers, what the unwinder read of the stack, the slots of labels and the
// number that vitrine's writer gives each set. They are kept beside the sample, in a block of their own, once a thread
// has waited the same way twice. If all of them are the same again, so is the sample but for its time; it is neither
// taken nor hashed. What does not follow from these words (labels of another writer, code that is unwound by other
// registers, a stack that was copied) is never kept.
//
// All of it is the thread's: the CPU that it leaves writes and reads it, with the lock of its run queue.
#pragma once

#include "bpf/kernel/profile/blocks.bpf.h"
#include "bpf/kernel/profile/take_sample.bpf.h"

#ifdef KNOWS_KERNEL_STACKS
#define KNOWS_WAITS
#endif

#ifdef KNOWS_WAITS

_Static_assert(sizeof(struct known_wait) <= VITRINE_BLOCK_BYTES, "room in a block");

struct slot_walk {
  struct scratch* s;
  const struct known_wait* known;
  __u32 differs;
};

static long compare_user_slot(__u32 index, void* context) {
  struct slot_walk* walk = context;
  const struct known_slot* slot = &walk->known->user[bounded(index, KNOWN_USER_SLOTS)];
  __u64 word = walk->s->kernel.entry[ENTRY_FRAME_POINTER];
  walk->differs =
      slot->address != FRAME_POINTER_REGISTER && !read_stack(walk->s, slot->address, &word);
  walk->differs |= word != slot->word;
  return walk->differs;
}

/// Whether this wait is like the one that the block has. s->facts are this one's, and s->kernel has its stack.
VERIFIED_ALONE int is_like_wait(struct scratch* given, __u32 number, __u32 tgid) {
  struct scratch* s = given ? as_element(given) : 0;
  if (!s) return 0;
  const struct known_wait* known = bpf_map_lookup_elem(&blocks, &number);
  if (!known || !has_facts(&s->facts, &known->facts) || !read_entry(s)) return 0;
  if (s->kernel.entry[ENTRY_PC] != known->pc || s->kernel.entry[ENTRY_STACK_POINTER] != known->sp)
    return 0;
  if (known->kernel_stack &&
      (known_at_place(s)->number != known->kernel_stack || !is_known_stack(s)))
    return 0;
  if (find_space(&s->unwinding, tgid, known->facts.execution) || s->unwinding.space != known->space)
    return 0;
  struct slot_walk walk = {.s = s, .known = known};
  s->unwinding.window_bytes = 0;
  bpf_loop(known->user_slots, compare_user_slot, &walk, 0);
  return !walk.differs && has_label_words(&known->labels, &s->room.head, &s->row.slots);
}

/// Of the sample in s->room.out, which has a row: what it follows from, into s->wait. Returns whether that is all known.
VERIFIED_ALONE int learn_wait(struct scratch* given, __u32 tgid) {
  struct scratch* s = given ? as_element(given) : 0;
  if (!s) return 0;
  const struct vitrine_stack_sample* head = (const struct vitrine_stack_sample*)s->room.out.bytes;
  struct known_wait* wait = &s->wait;
  const struct unwinding* u = &s->unwinding;
  if (head->unwound != VITRINE_UNWOUND_WHOLE || u->needs_more || u->slots > KNOWN_USER_SLOTS)
    return 0;
  if (profile_config.kernel_stacks && !s->kernel.number) return 0;
  if (s->room.words.is_unclear) return 0;
  // What is known of the process may be other since.
  const struct vitrine_target* target = bpf_map_lookup_elem(&targets, &tgid);
  if (!target || target->given_ns != s->facts.given_ns) return 0;
  if (!read_entry(s)) return 0;
  wait->facts = s->facts;
  wait->labels = s->room.words;
  wait->pc = s->kernel.entry[ENTRY_PC];
  wait->sp = s->kernel.entry[ENTRY_STACK_POINTER];
  wait->kernel_stack = profile_config.kernel_stacks ? s->kernel.number : 0;
  wait->space = head->space;
  wait->user_slots = u->slots;
  bpf_probe_read_kernel(wait->user, sizeof wait->user, u->slot);
  return 1;
}

static __always_inline int is_row_of(const struct vitrine_pending* entry,
                                     const struct row_state* row) {
  const struct vitrine_row_key* key = &row->own.key;
  return key->words[0] && entry->row.words[0] == key->words[0] &&
         entry->row.words[1] == key->words[1];
}

/// Of the sample in s->room.out, before it is the entry's: once its thread has waited like that twice.
static __always_inline void learn_wait_of(struct scratch* s, const struct vitrine_pending* entry,
                                          __u64 bytes) {
  const int is_kept = bytes <= KEPT_BLOCKS * VITRINE_BLOCK_BYTES ||
                      profile_config.unwinds == VITRINE_UNWINDS_AND_COPIES;
  const int is_repeated = is_row_of(entry, &s->row);
  const struct vitrine_stack_sample* head = (const struct vitrine_stack_sample*)s->room.out.bytes;
  tally(VITRINE_PROFILE_NOT_LIKE, s->wait.is_like && s->row.own.key.words[0] && !is_repeated);
  s->wait.is_learnt =
      is_repeated && is_kept && !profile_config.filter && learn_wait(s, head->event.kernel_tgid);
}

/// A block of the pool, of which samples keep seven eighths. Returns whether there was one.
static __always_inline int claim_memo(__u32* number) {
  const __u32 only = 0;
  struct vitrine_unused_blocks* pool = bpf_map_lookup_elem(&unused_blocks, &only);
  if (!pool || *(volatile __u32*)&pool->memos >= pool->end / 8 || !claim_block(number)) return 0;
  __sync_fetch_and_add(&pool->memos, 1);
  return 1;
}

static __always_inline void free_memo(__u32 number) {
  const __u32 only = 0;
  struct vitrine_unused_blocks* pool = bpf_map_lookup_elem(&unused_blocks, &only);
  bpf_map_push_elem(&free_blocks, &number, BPF_ANY);
  if (pool) __sync_fetch_and_add(&pool->memos, -1);
}

/// Once the sample is the entry's.
static __always_inline void keep_learnt_wait(struct scratch* s, struct vitrine_pending* entry) {
  __u32 number = entry->memo - 1;
  if (!s->wait.is_learnt || (!entry->memo && !claim_memo(&number))) return;
  entry->memo = number + 1;
  struct block* block = bpf_map_lookup_elem(&blocks, &number);
  if (!block) return;
  bpf_probe_read_kernel(block, sizeof s->wait, &s->wait);
  entry->has_memo = 1;
}

/// The sample of the entry, once more. Returns whether it is there.
static __always_inline int keep_again(struct vitrine_pending* entry, __u64 now) {
  struct block* block = bpf_map_lookup_elem(&blocks, &entry->block[0]);
  if (!block) return 0;
  __sync_lock_test_and_set(&entry->since_ns, 0);  // as claim_pending()
  ((struct vitrine_stack_sample*)block->bytes)->event.time_ns = now;
  __sync_lock_test_and_set(&entry->since_ns, now);
  return 1;
}

/// Of the wait whose facts are in s->facts. A function: what it has on its stack is not there while a sample is taken.
static __noinline int find_known_wait(struct scratch* s, __u32 tid, __u32 tgid, __u64 now) {
  s->wait.is_like = 0;
  struct vitrine_pending* entry = bpf_map_lookup_elem(&pending, &tid);
  if (!entry || !entry->has_memo || !is_like_wait(s, entry->memo - 1, tgid)) return 0;
  tally(VITRINE_PROFILE_LIKE_BEFORE, 1);
  s->wait.is_like = profile_config.unwinds == VITRINE_UNWINDS_AND_COPIES;
  return s->wait.is_like ? 0 : keep_again(entry, now);
}

/// Whether the thread waits as it did before, and that sample is kept for this wait as well.
static __always_inline int is_kept_again(struct scratch* s, const struct taking* taking, __u32 tid,
                                         __u64 now) {
  fill_facts(s, taking, (const __u64*)taking->task->comm);
  place_kernel_stack(s, taking, 0, 0);
  return find_known_wait(s, tid, taking->process.tgid, now);
}

#else

static __always_inline int is_kept_again(struct scratch* s, const struct taking* taking, __u32 tid,
                                         __u64 now) {
  return 0;
}

static __always_inline void learn_wait_of(struct scratch* s, const struct vitrine_pending* entry,
                                          __u64 bytes) {}

static __always_inline void free_memo(__u32 number) {}

static __always_inline void keep_learnt_wait(struct scratch* s, struct vitrine_pending* entry) {}

#endif
