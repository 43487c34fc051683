// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The labels of a thread's last sample on this CPU. To read and to hash them takes longer than to unwind a stack, and
// most samples have the same. They follow from few words (label_words.bpf.h) and from facts of the thread and its process:
// if all of them are the same again, the name of the row goes on from the hash that was kept. The sets are in the
// sample by their ids; if it is sent as a whole, and no record has carried them, they are put in then.
//
// A thread's place in the scratch is by its number. Only what was known for sure is kept, and not where a filter
// has to see the labels.
#pragma once

#include "bpf/kernel/profile/sample_state.bpf.h"

/// `comm`: the thread's name, as the sample has it.
static __always_inline void fill_facts(struct scratch* s, const struct taking* taking,
                                       const __u64* comm) {
  struct thread_facts* facts = &s->facts;
  facts->born = taking->task->start_boottime;
  facts->execution = taking->process.execution;
  facts->image = taking->process.image;
  facts->given_ns = taking->process.given_ns;
  facts->thread_pointer = thread_pointer_of_trusted(taking->task);
  facts->comm[0] = comm[0];
  facts->comm[1] = comm[1];
  facts->cpu_and_flags = (__u64)bpf_get_smp_processor_id() << 32 | taking->process.flags |
                         (taking->flags & VITRINE_SAMPLE_PREEMPTED);
}

static __always_inline int has_facts(const struct thread_facts* facts,
                                     const struct thread_facts* known) {
  return !((facts->born ^ known->born) | (facts->execution ^ known->execution) |
           (facts->image ^ known->image) | (facts->given_ns ^ known->given_ns) |
           (facts->thread_pointer ^ known->thread_pointer) | (facts->comm[0] ^ known->comm[0]) |
           (facts->comm[1] ^ known->comm[1]) | (facts->cpu_and_flags ^ known->cpu_and_flags));
}

static __always_inline struct known_thread* place_of_thread(struct scratch* s, __u32 tid) {
  return &s->threads[bounded(tid, KNOWN_THREADS)];
}

/// Whether the sets of a sample are those that are kept, content apart.
static __always_inline int has_sets(const struct vitrine_stack_sample* head,
                                    const struct known_thread* known) {
  const struct vitrine_fire_set* sets = (const struct vitrine_fire_set*)(head + 1);
  if (head->event.sets != known->sets) return 0;
  __u64 at = 0, differs = 0;
  for (__u32 i = 0; i < KNOWN_SETS; ++i) {
    if (i >= known->sets) break;
    const struct vitrine_fire_set* set =
        (const struct vitrine_fire_set*)((const __u8*)sets + bounded(at, LABEL_BUFFER_BYTES));
    const struct vitrine_fire_set* its = &known->set[i];
    differs |= (set->id ^ its->id) | (set->slot ^ its->slot) |
               (set->slot_address ^ its->slot_address) | (set->definition ^ its->definition) |
               (set->state ^ its->state) | set->fresh_bytes;
    at += sizeof *set + set->kept_bytes;
  }
  return differs == 0;
}

/// Whether the thread's labels are those that are kept; s->facts are its own.
VERIFIED_ALONE int is_known_thread(struct scratch* s, __u32 tid) {
  if (!s) return 0;
  const struct known_thread* known = place_of_thread(s, tid);
  return known->tid == tid && has_facts(&s->facts, &known->facts) &&
         has_label_words(&known->labels, &s->room.head, &s->row.slots);
}

static __always_inline int append_known_set(struct scratch* s, const struct known_thread* known,
                                            __u32 index, __u64 word) {
  struct slot_place* place = &s->room.place;
  place->state = VITRINE_SLOT_READ;
  place->address = known->labels.slot[index].address;
  place->slot = word;
  place->record = word & known->address_mask;
  return append_set_of_place(&s->room, known->set[index].definition, known->labels.shape[index],
                             VITRINE_TLS_STATIC, known->address_mask);
}

/// After is_known_thread(), which has found other words in the two slots of a thread whose facts are the same: where
/// the slots are, and what they are of, follows from facts. As append_sets_of().
VERIFIED_ALONE __u32 append_known_sets(struct scratch* s, __u32 tid) {
  if (!s) return 0;
  const struct known_thread* known = place_of_thread(s, tid);
  s->row.address_mask = known->address_mask;
  begin_sets(&s->room, s->facts.execution);
  __u32 sets = append_known_set(s, known, 0, s->row.slots.word[1]);
  if (sets) sets += append_known_set(s, known, 1, s->row.slots.word[0]);
  count_trouble(s);
  return sets;
}

/// After is_known_thread(): the sets into the sample whose head is in s->room.out, and what names its row.
VERIFIED_ALONE int take_known_labels(struct scratch* s, __u32 tid) {
  if (!s) return 0;
  struct vitrine_stack_sample* head = (struct vitrine_stack_sample*)s->room.out.bytes;
  const struct known_thread* known = place_of_thread(s, tid);
  struct vitrine_fire_set* sets = (struct vitrine_fire_set*)(head + 1);
  sets[0] = known->set[0];
  sets[1] = known->set[1];
  head->event.sets = known->sets;
  s->row.hash[HASH_OF_ROW].state = known->hash;
  s->row.hash[HASH_OF_ROW].queued = 0;
  s->row.ids = known->ids;
  s->row.span_at = known->span_at;
  s->row.span.trace_id[0] = known->trace_id[0];
  s->row.span.trace_id[1] = known->trace_id[1];
  s->row.span.span_id = known->span_id;
  s->row.is_known = 1;
  s->row.keeps_labels = 1;
  s->row.lacks_sets = known->sent_epoch != head->event.epoch;
  s->row.set_at = sizeof *head + (__u64)known->sets * sizeof *sets;
  s->room.out.used = s->row.set_at;
  return 1;
}

/// The labels of the sample in s->room.out are known for sure: keeps them.
VERIFIED_ALONE int keep_labels(struct scratch* s, __u32 tid) {
  if (!s) return 0;
  const struct vitrine_stack_sample* head = (const struct vitrine_stack_sample*)s->room.out.bytes;
  struct known_thread* known = place_of_thread(s, tid);
  if (s->room.words.is_unclear || head->event.sets > KNOWN_SETS) return 0;
  known->tid = 0;
  __u64 at = sizeof *head;
  for (__u32 i = 0; i < KNOWN_SETS; ++i) {
    if (i >= head->event.sets) break;
    const struct vitrine_fire_set* set = piece_at(&s->room.out, at);
    known->set[i] = *set;
    known->set[i].kept_bytes = 0;
    at += sizeof *set + set->kept_bytes;
  }
  known->sets = head->event.sets;
  known->sent_epoch = head->event.epoch & vitrine_if_zero(s->room.new_sets);
  known->facts = s->facts;
  known->labels = s->room.words;
  known->address_mask = s->row.address_mask;
  known->hash = s->row.hash[HASH_OF_ROW].state;
  known->ids = s->row.ids;
  known->span_at = s->row.span_at;
  known->trace_id[0] = s->row.span.trace_id[0];
  known->trace_id[1] = s->row.span.trace_id[1];
  known->span_id = s->row.span.span_id;
  known->tid = tid;
  s->row.keeps_labels = 1;
  return 1;
}

/// Where all samples are taken anew, to compare: whether what is kept led to another one. Of a set's content only the
/// id may be known meanwhile (label_content.bpf.h): then it has another hash.
VERIFIED_ALONE int is_other_thread(struct scratch* s, __u32 tid) {
  if (!s) return 0;
  const struct vitrine_stack_sample* head = (const struct vitrine_stack_sample*)s->room.out.bytes;
  const struct known_thread* known = place_of_thread(s, tid);
  if (!s->row.is_known || !has_sets(head, known)) return 1;
  // The ids come with the block, which a record of before may have carried.
  const struct vitrine_span_sample* span = &s->row.span;
  const __u64 span_at = s->row.span_at;
  const __u64 differs = (span->trace_id[0] ^ known->trace_id[0]) |
                        (span->trace_id[1] ^ known->trace_id[1]) | (span->span_id ^ known->span_id);
  if (span_at != NO_SPAN && known->span_at != NO_SPAN &&
      (span_at != known->span_at || (span_at && differs)))
    return 1;
  if (s->row.ids != known->ids) return 0;
  const struct vitrine_hash_state *hash = &s->row.hash[HASH_OF_ROW].state, *its = &known->hash;
  return ((hash->v0 ^ its->v0) | (hash->v1 ^ its->v1) | (hash->v2 ^ its->v2) |
          (hash->v3 ^ its->v3)) != 0;
}

/// The same of the places of the sets of a sample for which append_known_sets() would have done.
VERIFIED_ALONE int has_other_places(struct scratch* s, __u32 tid) {
  if (!s) return 0;
  const struct vitrine_stack_sample* head = (const struct vitrine_stack_sample*)s->room.out.bytes;
  const struct known_thread* known = place_of_thread(s, tid);
  const struct label_words *words = &s->room.words, *its = &known->labels;
  __u64 at = sizeof *head, differs = (head->event.sets ^ 2) | (words->count ^ 2);
#pragma clang loop unroll(disable)
  for (__u32 i = 0; i < KNOWN_SETS; ++i) {
    const struct vitrine_fire_set* set = piece_at(&s->room.out, at);
    differs |= (words->slot[i].address ^ its->slot[i].address) | (words->shape[i] ^ its->shape[i]) |
               (set->definition ^ known->set[i].definition);
    at += sizeof *set + set->fresh_bytes + set->kept_bytes;
  }
  return differs != 0 || s->row.address_mask != known->address_mask;
}

/// Of a sample of `bytes` bytes that lacks its sets, and has no copy of a stack: puts them in, if they are still the same,
/// and what there is otherwise. Returns how many bytes it has then.
VERIFIED_ALONE __u64 put_sets_in(struct scratch* s, const struct process* process, __u64 bytes) {
  if (!s || !process) return bytes;
  struct label_buffer* out = &s->room.out;
  struct vitrine_stack_sample* head = (struct vitrine_stack_sample*)out->bytes;
  __u8* const kept = out->bytes + 2 * LABEL_BUFFER_BYTES;
  const __u64 length = bounded(bytes - s->row.set_at, LABEL_BUFFER_BYTES);
  bpf_probe_read_kernel(kept, length, piece_at(out, s->row.set_at));
  out->used = sizeof *head;
  head->event.sets = append_sets_of(s, process, bpf_get_current_task());
  const struct known_thread* known = place_of_thread(s, bpf_get_current_pid_tgid());
  s->room.new_sets =
      0;  // the hashes of their contents are not known: another sample is to carry them
  s->row.lacks_sets = 0;
  s->row.has_other_sets = out->cut || out->faults || !has_sets(head, known);
  s->row.set_at = out->used;
  // The buffer may be full to its last byte.
  bpf_probe_read_kernel(out->bytes + bounded(out->used, 2 * LABEL_BUFFER_BYTES), length, kept);
  return out->used + length;
}

/// A record has carried the sample with all of its sets, now or before.
static __always_inline void note_labels_sent(struct scratch* s, __u32 tid) {
  const struct vitrine_stack_sample* head = (const struct vitrine_stack_sample*)s->room.out.bytes;
  if (s->row.keeps_labels) place_of_thread(s, tid)->sent_epoch = head->event.epoch;
}
