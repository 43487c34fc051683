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

/// As many logs as there are scratches: the log of a scratch belongs to the program that has claimed that.
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct vitrine_span_place);
} span_logs SEC(".maps");

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

/// Of the label set at s->row.set_at what a filter depends on, into s->row.subject_hash.
static __noinline int hash_set_of_subject(struct scratch* s) {
  const struct vitrine_fire_set* set = sample_at(&s->room.out, s->row.set_at);
  if (!set) return 0;
  struct vitrine_hash_state* subject = &s->row.hash[HASH_OF_SUBJECT].state;
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
  struct new_content* content = &s->row.new_content[bounded(index, VITRINE_DEFINITIONS)];
  content->set_key = 0;
  s->row.hashed_sets = index + 1;
  if (find_content(s)) {
    add_ids(s);
    content->set_key = s->row.set_key;
    content->hashes = s->row.set;
    if (s->room.whole) keep_content(content->set_key, &content->hashes);
  }
  if (profile_config.filter) hash_set_of_subject(s);
  const struct vitrine_fire_set* set = sample_at(&s->room.out, s->row.set_at);
  if (!set) return 1;
  const __u32 fresh = set->fresh_bytes, kept = set->kept_bytes;
  const __u64 state = set->state, has_slot = set->slot != 0;
  note_span(s, set);
  s->row.ids = (s->row.ids << 7 | s->row.ids >> 57) ^ s->row.set.ids;
  __u64* queue = room_in_queue(s, HASH_OF_ROW, 7);
  queue[0] = s->row.set.without_span;
  queue[1] = set->definition | state << 32 | has_slot << 40;
  // Of a chunk with a record's header, its lengths and that.
  const __u64* words = (const __u64*)(set + 1);
  for (int i = 0; i < 5; ++i) queue[2 + i] = words[1 + i];
  count_queued(s, HASH_OF_ROW, fresh ? 7 : 2);
  if ((kept && !set->id) || (fresh && fresh != sizeof(struct vitrine_chunk) + 32))
    s->row.unclear = 1;
  s->row.set_at += sizeof *set + fresh + kept;
  return s->row.unclear ? 1 : 0;
}

static long keep_new_content(__u32 index, void* context) {
  struct scratch* s = *(struct scratch**)context;
  const struct new_content* content = &s->row.new_content[bounded(index, VITRINE_DEFINITIONS)];
  if (content->set_key) keep_content(content->set_key, &content->hashes);
  return 0;
}

/// Once a record has carried the sets of the sample in s->room.out, before note_all_sent().
static __always_inline void keep_new_contents(struct scratch* s) {
  if (s->room.new_sets) loop_rarely(s->row.hashed_sets, keep_new_content, &s);
}

// Naming a row, in two functions, as what the deeper one has on its stack is not to be beside what the other
// has. The second goes on with the hash of the first.

/// Process and label sets. False: not all of them are known for sure. `is_of_kernel`: the thread has neither labels
/// nor code that is unwound.
static __always_inline int hash_sets(struct scratch* s, __u64 execution, __u32 is_of_kernel) {
  const struct vitrine_stack_sample* head = (const struct vitrine_stack_sample*)s->room.out.bytes;
  const struct vitrine_event_header* event = &head->event;
  const __u32 unknown =
      VITRINE_FIRE_UNKNOWN | VITRINE_FIRE_INHERITED | VITRINE_FIRE_ASSUMED | VITRINE_FIRE_CUT;
  if (s->room.out.cut || s->room.out.faults) return 0;
  if (!is_of_kernel && event->flags & unknown) return 0;
  begin_row_hash(&s->row.hash[HASH_OF_ROW]);
  __u64* words = s->row.hash[HASH_OF_ROW].word;
  words[0] = execution;
  words[1] = event->image;
  words[2] = event->process_start_ns;
  words[3] = (__u64)event->kernel_tgid << 32 | event->sets;
  s->row.hash[HASH_OF_ROW].queued = 4;
  if (profile_config.filter) {
    hash_queued(s, HASH_OF_ROW);
    s->row.hash[HASH_OF_SUBJECT].state = s->row.hash[HASH_OF_ROW].state;
  }
  s->row.set_at = sizeof *head;
  s->row.block.at = 0;
  s->row.unclear = 0;
  s->row.span_at = s->row.ids = 0;
  bpf_loop(event->sets, hash_set_of_sample, &s, 0);
  return s->row.unclear ? 0 : 1;
}

/// What the hash is after its end, as a key.
VERIFIED_ALONE int end_key(const struct vitrine_hash_state* hash, struct vitrine_row_key* key,
                           __u64 length) {
  if (!hash || !key) return 0;
  struct vitrine_hash_state state = *hash;
  key->words[0] = end_hash(&state, length) | 1;
  key->words[1] = vitrine_hash_more(&state) | 1;
  return 0;
}

/// Thread and CPU; the subject, if there is a filter, of these as well where it depends on them.
static __always_inline void hash_facts(struct scratch* s) {
  const struct vitrine_stack_sample* head = (const struct vitrine_stack_sample*)s->room.out.bytes;
  const struct vitrine_event_header* event = &head->event;
  const __u32 filter = profile_config.filter;
  const __u64* comm = (const __u64*)event->comm;
  if (filter) {
    struct vitrine_hash_state* subject = &s->row.hash[HASH_OF_SUBJECT].state;
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
  __u64* words = room_in_queue(s, HASH_OF_ROW, 4);
  words[0] = (__u64)event->flags << 32 | event->kind;
  words[1] = cpu << 32 | (__u32)event->tid;
  words[2] = comm[0];
  words[3] = comm[1];
  count_queued(s, HASH_OF_ROW, 4);
  hash_queued(s, HASH_OF_ROW);
}

#define QUEUED_FRAMES 8

/// Both stacks. Most have few frames.
static __always_inline void hash_stacks(struct scratch* s,
                                        const struct vitrine_stack_sample* head) {
  struct row_hash* hash = &s->row.hash[HASH_OF_ROW];
  const __u64 kernel = s->row.set_at;  // behind the label sets
  const __u64 user = kernel + head->kernel_bytes + head->register_bytes;
  const __u64 frames = head->frame_bytes / 8;
  hash->word[0] = (__u64)head->kernel_bytes << 32 | head->frame_bytes;
  hash->word[1] = head->space;
  hash->queued = 2;
  const __u64* from = sample_at(&s->room.out, user);
  if (from && !head->kernel_bytes && frames <= QUEUED_FRAMES) {
    for (int i = 0; i < QUEUED_FRAMES; ++i) hash->word[2 + i] = from[i];
    hash->queued += frames;
  }
  hash_queued(s, HASH_OF_ROW);
  if (!head->kernel_bytes && frames <= QUEUED_FRAMES) return;
  s->row.hashed = HASH_OF_ROW;
  hash_of_sample(s, kernel, head->kernel_bytes / 8);
  hash_of_sample(s, user, frames);
}

/// Names the row of the sample in s->room.out, by all that it has but its time.
VERIFIED_ALONE int name_row(struct scratch* s) {
  if (!s || !s->row.is_known || !profile_config.rows) return 0;
  const struct vitrine_stack_sample* head = (const struct vitrine_stack_sample*)s->room.out.bytes;
  if (head->register_bytes && head->unwound != VITRINE_UNWOUND_WHOLE) return 0;
  hash_stacks(s, head);
  struct vitrine_hash_state own = s->row.hash[HASH_OF_ROW].state;
  hash_word(&own, s->row.ids);
  end_key(&own, &s->row.own.key, 1);
  const int has_span = s->row.span_at != 0 && s->row.span_at != NO_SPAN;
  if (has_span && head->event.kind == VITRINE_SAMPLE_ON_CPU && profile_config.spans)
    end_key(&s->row.hash[HASH_OF_ROW].state, &s->row.model.key, 0);
  return 1;
}

/// What is left of the sample before must not name the next one.
static __always_inline void forget_row(struct row_state* row) {
  row->own.key.words[0] = row->model.key.words[0] = 0;
  row->subject = row->address_mask = 0;
  row->is_unwanted = row->is_known = 0;
  row->hashed_sets = row->keeps_labels = row->lacks_sets = row->has_other_sets = 0;
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

/// The row of this name at the place that comes after so many others. Returns an enum vitrine_row_found.
static __always_inline int try_row(struct named_row* named, __u32 generation, __u32 attempt) {
  const struct vitrine_row_key key = named->key;
  const __u32 number = vitrine_row_place(&key, generation, profile_config.rows, attempt);
  struct vitrine_row* row = bpf_map_lookup_elem(&rows, &number);
  named->number = number;
  return row ? vitrine_row_try(row, &key) : VITRINE_ROW_OTHER;
}

VERIFIED_ALONE int try_next_row(struct named_row* named, __u32 generation, __u32 attempt) {
  return named ? try_row(named, generation, attempt) : VITRINE_ROW_OTHER;
}

/// Looks for the row of this name. VITRINE_ROW_OTHER: it has no name, or there is no room for it.
VERIFIED_ALONE int find_row(struct named_row* named, __u32 generation) {
  if (!named) return 0;
  named->found = VITRINE_ROW_OTHER;
  if (!named->key.words[0]) return 0;
  named->found = try_row(named, generation, 0);
#pragma clang loop unroll(disable)
  for (__u32 i = 1; i < VITRINE_ROW_TRIES; ++i) {
    if (named->found != VITRINE_ROW_OTHER) return 0;
    named->found = try_next_row(named, generation, i);
  }
  if (named->found == VITRINE_ROW_OTHER) rows_full = 1;
  return 0;
}

/// Looks for the row of the sample's model, first among those that were found last.
static __always_inline void find_model(struct scratch* s) {
  struct named_row* model = &s->row.model;
  const __u32 generation = s->row.generation;
  struct known_model* known = &s->models[bounded(model->key.words[0] >> 1, KNOWN_MODELS)];
  const int is_known =
      !((known->key.words[0] ^ model->key.words[0]) | (known->key.words[1] ^ model->key.words[1]) |
        (known->generation ^ generation));
  if (is_known && model->key.words[0]) {
    model->number = known->number;
    model->found = VITRINE_ROW_KNOWN;
    return;
  }
  find_row(model, generation);
  if (model->found != VITRINE_ROW_KNOWN) return;
  known->key = model->key;
  known->number = model->number;
  known->generation = generation;
}

static __always_inline int add_to_row(const struct named_row* named, __u64 time_ns, __u64 off_ns) {
  const __u32 number = named->number;
  struct vitrine_row* row = bpf_map_lookup_elem(&rows, &number);
  return row && vitrine_row_add(row, time_ns, profile_config.row_bits, off_ns);
}

/// Whether the sample has a model, and none with its ids was met before: then it needs no row.
static __always_inline int is_span_new(struct scratch* s) {
  const struct vitrine_row_key* key = &s->row.own.key;
  if (!s->row.model.key.words[0]) return 0;
  __u64* met = &s->spans_met[bounded(key->words[0] >> 1, SPANS_MET)];
  if (*met == key->words[1]) return 0;
  *met = key->words[1];
  return 1;
}

/// Puts s->row.span into the log, whose places are used in turn. Returns whether it had room.
static __always_inline int log_span(struct scratch* s) {
  const __u32 places = profile_config.span_places;
  if (!places) return 0;
  const __u32 number = s->index * places + (s->row.spans_logged & (places - 1));
  struct vitrine_span_place* place = bpf_map_lookup_elem(&span_logs, &number);
  if (!place || !vitrine_span_put(place, &s->row.span)) return 0;
  s->row.spans_logged++;
  return 1;
}

/// What becomes of a row that was claimed.
VERIFIED_ALONE int finish_row(const struct named_row* named, __u32 sent) {
  if (!named || named->found != VITRINE_ROW_CLAIMED) return 0;
  const __u32 number = named->number;
  const struct vitrine_row_key key = named->key;
  struct vitrine_row* row = bpf_map_lookup_elem(&rows, &number);
  if (row) vitrine_row_finish(row, &key, sent);
  return 0;
}
