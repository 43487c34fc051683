// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Equal samples are added up in a row: only the first of them is sent (docs/essays/rows.md). Only
// where a program unwinds, as stacks that user space unwinds are not compared.
#pragma once

#include "bpf/kernel/profile/label_content.bpf.h"

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct vitrine_row);
} rows SEC(".maps");

/// Subjects that the reader has found not to match the profile's filter (docs/essays/rows.md). One that has dropped
/// out is found again.
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 1);
  __type(key, __u64);
  __type(value, __u32);
} unwanted SEC(".maps");

/// A sample found no free row. For the reader, which begins new ones.
__u32 rows_full;

#define SPANS_MET 16384 /* a power of two */

/// Second parts of the keys of samples that have a model, each at the place of its first: most are met once, and
/// need no row.
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, SPANS_MET);
  __type(key, __u32);
  __type(value, __u64);
} spans_met SEC(".maps");

/// Of the label set at s->row.set_at what a filter depends on, into s->row.subject_hash.
static __noinline int hash_set_of_subject(struct scratch* s) {
  const struct vitrine_fire_set* set = sample_at(&s->room.out, s->row.set_at);
  if (!set) return 0;
  struct vitrine_hash_state* subject = &s->row.hash[HASH_OF_SUBJECT];
  const __u32 has_span = profile_config.filter & VITRINE_FILTER_BY_SPAN;
  hash_word(subject, s->row.set.without_span);
  if (has_span) hash_word(subject, s->row.set.ids);
  hash_word(subject, set->definition | (__u64)set->state << 32);
  if (!set->fresh_bytes) return 0;
  const __u64* words = (const __u64*)(set + 1);
  if (has_span) hash_words(subject, (const struct few_words*)(words + 2), 3);
  hash_word(subject, words[5]);
  return 0;
}

/// The content of a label set, not its place; and of what comes every time the bytes.
static long hash_set_of_sample(__u32 index, void* context) {
  struct scratch* s = *(struct scratch**)context;
  if (find_content(s)) add_ids(s);
  if (profile_config.filter) hash_set_of_subject(s);
  const struct vitrine_fire_set* set = sample_at(&s->room.out, s->row.set_at);
  if (!set) return 1;
  const __u32 fresh = set->fresh_bytes, kept = set->kept_bytes;
  const __u64 state = set->state, has_slot = set->slot != 0;
  note_span(s, set);
  struct vitrine_hash_state* hash = &s->row.hash[HASH_OF_ROW];
  s->row.ids = (s->row.ids << 7 | s->row.ids >> 57) ^ s->row.set.ids;
  hash_word(hash, s->row.set.without_span);
  hash_word(hash, set->definition | state << 32 | has_slot << 40);
  if (fresh) {  // a chunk with a record's header
    const __u64* words = (const __u64*)(set + 1);
    hash_words(hash, (const struct few_words*)(words + 1), FEW_WORDS);
    hash_word(hash, words[5]);
  }
  if ((kept && !set->id) || (fresh && fresh != sizeof(struct vitrine_chunk) + 32))
    s->row.unclear = 1;
  s->row.set_at += sizeof *set + fresh + kept;
  return s->row.unclear ? 1 : 0;
}

// Naming a row, in two functions, as what the deeper one has on its stack is not to be beside what the other
// has. The second goes on with the hash of the first.

/// Process and label sets. False: not all of them are known for sure. `is_of_kernel`: the thread has neither labels
/// nor code that is unwound.
static __always_inline int hash_sets(struct scratch* given, __u64 execution, __u32 is_of_kernel) {
  struct scratch* s = as_element(given);  // which has keys and values of `contents`
  if (!s) return 0;
  const struct vitrine_stack_sample* head = (const struct vitrine_stack_sample*)s->room.out.bytes;
  const struct vitrine_event_header* event = &head->event;
  const __u32 unknown =
      VITRINE_FIRE_UNKNOWN | VITRINE_FIRE_INHERITED | VITRINE_FIRE_ASSUMED | VITRINE_FIRE_CUT;
  if (s->room.out.cut || s->room.out.faults) return 0;
  if (!is_of_kernel && event->flags & unknown) return 0;
  struct vitrine_hash_state* hash = &s->row.hash[HASH_OF_ROW];
  vitrine_hash_begin(hash, &config.hash_key);
  __u64* words = s->row.words.word;
  words[0] = execution;
  words[1] = event->image;
  words[2] = event->process_start_ns;
  words[3] = (__u64)event->kernel_tgid << 32 | event->sets;
  hash_words(hash, &s->row.words, FEW_WORDS);
  if (profile_config.filter) s->row.hash[HASH_OF_SUBJECT] = *hash;
  s->row.set_at = sizeof *head;
  s->row.block.at = 0;
  s->row.unclear = 0;
  s->row.span_at = s->row.ids = 0;
  bpf_loop(event->sets, hash_set_of_sample, &s, 0);
  return s->row.unclear ? 0 : 1;
}

static __always_inline struct vitrine_row_key end_key(struct vitrine_hash_state* hash,
                                                      __u64 length) {
  struct vitrine_row_key key;
  key.words[0] = end_hash(hash, length) | 1;
  key.words[1] = more_of_hash(hash) | 1;
  return key;
}

/// Thread and CPU; the subject, if there is a filter, of these as well where it depends on them.
static __always_inline void hash_facts(struct scratch* s) {
  const struct vitrine_stack_sample* head = (const struct vitrine_stack_sample*)s->room.out.bytes;
  const struct vitrine_event_header* event = &head->event;
  const __u32 filter = profile_config.filter;
  const __u64* comm = (const __u64*)event->comm;
  if (filter) {
    struct vitrine_hash_state* subject = &s->row.hash[HASH_OF_SUBJECT];
    // What a filter sees may be another in the next interval, as a process declares more of itself.
    hash_word(subject, profile_state.generation);
    if (filter & VITRINE_FILTER_BY_CPU) hash_word(subject, event->cpu);
    if (filter & VITRINE_FILTER_BY_THREAD) {
      hash_word(subject, event->tid);
      hash_words(subject, (const struct few_words*)comm, 2);
    }
    s->row.subject = end_hash(subject, 3) | 1;
  }
  // Where a waker ran is not kept.
  const __u64 cpu = event->kind == VITRINE_SAMPLE_WAKER ? 0 : event->cpu;
  __u64* words = s->row.words.word;
  words[0] = (__u64)event->flags << 32 | event->kind;
  words[1] = cpu << 32 | (__u32)event->tid;
  words[2] = comm[0];
  words[3] = comm[1];
  hash_words(&s->row.hash[HASH_OF_ROW], &s->row.words, FEW_WORDS);
}

/// Names the row of the sample in s->room.out, by all that it has but its time.
VERIFIED_ALONE int name_row(struct scratch* s) {
  if (!s || !s->row.is_known || !profile_config.rows) return 0;
  const struct vitrine_stack_sample* head = (const struct vitrine_stack_sample*)s->room.out.bytes;
  if (head->register_bytes && head->unwound != VITRINE_UNWOUND_WHOLE) return 0;
  const __u64 kernel = s->row.set_at;  // behind the label sets
  struct vitrine_hash_state *hash = &s->row.hash[HASH_OF_ROW], *own = &s->row.hash[HASH_OF_CONTENT];
  hash_word(hash, (__u64)head->kernel_bytes << 32 | head->frame_bytes);
  hash_word(hash, head->space);
  s->row.hashed = HASH_OF_ROW;
  hash_of_sample(s, kernel, head->kernel_bytes / 8);
  hash_of_sample(s, kernel + head->kernel_bytes + head->register_bytes, head->frame_bytes / 8);
  *own = *hash;
  hash_word(own, s->row.ids);
  s->row.key = end_key(own, 1);
  const int has_span = s->row.span_at != 0 && s->row.span_at != NO_SPAN;
  if (has_span && head->event.kind == VITRINE_SAMPLE_ON_CPU && profile_config.spans)
    s->row.model = end_key(hash, 0);
  return 1;
}

/// What is left of the sample before must not name the next one.
static __always_inline void forget_row(struct row_state* row) {
  row->key.words[0] = row->model.words[0] = 0;
  row->subject = row->address_mask = 0;
  row->is_unwanted = row->is_known = 0;
  row->keeps_labels = row->lacks_sets = row->has_other_sets = 0;
  row->slots.is_read = 0;
}

/// Once the sample in s->room.out has its label sets: begins to name its row. Returns whether it is known not to
/// be wanted.
VERIFIED_ALONE int name_subject(struct scratch* s, __u64 execution, __u32 is_of_kernel) {
  if (!s || (!profile_config.rows && !profile_config.filter)) return 0;
  s->row.is_known = hash_sets(s, execution, is_of_kernel);
  if (s->row.is_known) hash_facts(s);
  const __u64 subject = s->row.subject;
  if (!subject) return 0;
  s->row.is_unwanted = bpf_map_lookup_elem(&unwanted, &subject) != 0;
  return s->row.is_unwanted;
}

/// The place that find_row() comes to after so many others.
VERIFIED_ALONE int try_row(struct scratch* s, __u32 of_model, __u32 attempt) {
  if (!s) return VITRINE_ROW_OTHER;
  const struct vitrine_row_key key = of_model ? s->row.model : s->row.key;
  __u32 number = vitrine_row_place(&key, s->row.generation, profile_config.rows, attempt);
  struct vitrine_row* row = bpf_map_lookup_elem(&rows, &number);
  *(of_model ? &s->row.model_number : &s->row.number) = number;
  return row ? vitrine_row_try(row, &key) : VITRINE_ROW_OTHER;
}

/// The row that s->row names, or its model's, into s->row.number or model_number. Returns an enum
/// vitrine_row_found; VITRINE_ROW_OTHER: there is no room for it.
VERIFIED_ALONE int find_row(struct scratch* s, __u32 of_model) {
  if (!s || !(of_model ? s->row.model : s->row.key).words[0]) return VITRINE_ROW_OTHER;
#pragma clang loop unroll(disable)
  for (__u32 i = 0; i < VITRINE_ROW_TRIES; ++i) {
    const int found = try_row(s, of_model, i);
    if (found != VITRINE_ROW_OTHER) return found;
  }
  rows_full = 1;
  return VITRINE_ROW_OTHER;
}

static __always_inline int add_to_row(struct scratch* s, __u64 time_ns, __u64 off_ns) {
  __u32 number = s->row.number;
  struct vitrine_row* row = bpf_map_lookup_elem(&rows, &number);
  return row && vitrine_row_add(row, time_ns, profile_config.row_bits, off_ns);
}

/// As find_row(), of a sample that may have a model: then it has a row only if one with its ids was met before.
VERIFIED_ALONE int find_row_of_span(struct scratch* s) {
  if (!s) return VITRINE_ROW_OTHER;
  const __u32 place = s->row.key.words[0] >> 1 & (SPANS_MET - 1);
  volatile __u64* met = bpf_map_lookup_elem(&spans_met, &place);
  if (!s->row.model.words[0] || !met || *met == s->row.key.words[1]) return find_row(s, 0);
  *met = s->row.key.words[1];
  return VITRINE_ROW_OTHER;
}

VERIFIED_ALONE int finish_row(struct scratch* s, __u32 of_model, __u32 sent) {
  if (!s) return 0;
  __u32 number = of_model ? s->row.model_number : s->row.number;
  const struct vitrine_row_key key = of_model ? s->row.model : s->row.key;
  struct vitrine_row* row = bpf_map_lookup_elem(&rows, &number);
  if (row) vitrine_row_finish(row, &key, sent);
  return 0;
}
