// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The common part of records, how they are sent, and the label sets on them: a set that a record has
// carried before is sent as its id alone.
#pragma once

#include "bpf/kernel/event_state.bpf.h"
#include "bpf/kernel/hash.bpf.h"
#include "bpf/kernel/task.bpf.h"

#define RECORD_HEADER 28 /* abi/thread_context.hpp Record: ids and flags change with every span */
#define RECORD_IDS 24    /* of trace and span, with which it begins */
#define OWN_WINDOW 512   /* of a set of vitrine's writer, read at once; a power of two */

static __always_inline __u64* place_of_sent(__u64 id) {
  const __u32 place = id >> 1 & (SENT_SETS - 1);  // the lowest bit is set in all of them
  return bpf_map_lookup_elem(&sent, &place);
}

// What is noted of a record's sets belongs to the epoch in its header: the reader may begin another at any time, and a fire
// may wait for a page between any two steps. A mark of the new epoch for what a record of the old one has carried would
// leave the set out of all that follow.
static __always_inline __u64 mark_of_sent(__u64 id, __u32 epoch) {
  return id ^ (__u64)epoch << 32;
}

static __always_inline int was_sent(__u64 id, __u32 epoch) {
  const volatile __u64* mark = place_of_sent(id);
  return mark && *mark == mark_of_sent(id, epoch);
}

/// Names an incarnation of a set of vitrine's writer, without looking at its labels.
VERIFIED_ALONE __u64 own_set_id(struct last_set* last, __u64 execution, __u64 set, __u64 serial) {
  if (!last) return 0;
  const __u64 differs = (last->set ^ set) | (last->serial ^ serial) | (last->execution ^ execution);
  if (!(differs | vitrine_if_zero(last->id))) return last->id;
  struct vitrine_hash_state state;
  last->set = set;
  last->serial = serial;
  last->execution = execution;
  vitrine_hash_begin(&state, &config.hash_key);
  hash_words(&state, (const struct few_words*)last, 3);  // these
  last->id = end_hash(&state, 24) | 1;
  last->sent_epoch = 0;
  return last->id;
}

/// Of the set whose id was asked for last.
static __always_inline int last_was_sent(struct last_set* last, __u32 epoch) {
  if (last->sent_epoch == epoch) return 1;
  if (!was_sent(last->id, epoch)) return 0;
  last->sent_epoch = epoch;
  return 1;
}

/// All ones: yes, else 0.
static __always_inline __u64 if_in(const struct own_block* block, __u64 record) {
  return ~(vitrine_if_zero(block->id) |
           vitrine_if_negative((record - block->begin) | (block->end - 1 - record)));
}

/// The head of a set that may be vitrine's writer's, into room->head, and what follows it to where it belongs: most sets
/// are short, and one read of all costs little more than one of the head. Returns how many bytes were read; 0: it is
/// another writer's.
static __always_inline __u64 read_own_set(struct label_room* room, __u64 set) {
  struct label_buffer* out = &room->out;
  const __u64 in_page = 4096 - (set & 4095);
  const __u64 size = in_page < OWN_WINDOW ? in_page : OWN_WINDOW;
  const struct serial_head* head = piece_at(out, out->used + sizeof(struct vitrine_chunk));
  // What was looked at last is most often the same, and has been sent.
  if (room->last.set == set || size < sizeof *head)
    return read_serial_head(&room->head, set) ? sizeof *head : 0;
  if (READ_USER((void*)head, bounded(size, 2 * OWN_WINDOW), set)) return 0;
  room->head = *head;
  return is_serial_head(head, set) ? size : 0;
}

/// After read_own_set(), which has read `got` bytes of the set: as append_chunk().
static __always_inline void append_own_set(struct label_room* room, __u64 set, __u64 got) {
  struct label_buffer* out = &room->out;
  const __u64 at = out->used, bytes = room->head.total_bytes;
  if (bytes > got || at + sizeof(struct vitrine_chunk) + bytes > LABEL_BUFFER_BYTES) {
    append_chunk(out, set, bytes);
    return;
  }
  struct vitrine_chunk* chunk = piece_at(out, at);
  chunk->address = set;
  chunk->wanted = chunk->got = bytes;
  clear_padding(out, at + sizeof *chunk, bytes);
  out->used = at + sizeof *chunk + ((bytes + 7) & ~7ULL);
}

/// The set's content behind its head: what is read anew each time, and from room->kept_at on what is kept. Its id
/// goes to room->id if that is known by now. Returns whether something may be kept: name_content().
VERIFIED_ALONE int append_content(struct label_room* room, __u32 shape, __u64 address_mask) {
  if (!room) return 0;
  struct label_buffer* out = &room->out;
  const struct slot_place* place = &room->place;
  room->trouble = out->cut + out->faults;
  if (shape == VITRINE_SIZED_RECORD && if_in(&room->own, place->record)) {
    room->id = room->own.id;
    return 0;
  }
  if (shape == VITRINE_SIZED_RECORD) {
    const __u64 at = place->record ? append_chunk(out, place->record, RECORD_HEADER) : 0;
    if (!at) return 0;
    const __u8* header = piece_at(out, at);
    const __u64 attributes = *(const __u16*)(header + 26);
    room->kept_at = out->used;
    if (attributes)
      append_chunk(out, place->record + RECORD_HEADER,
                   attributes > LABEL_CHUNK_BYTES ? LABEL_CHUNK_BYTES : attributes);
  } else if (shape == VITRINE_LABEL_ARRAY) {
    const struct serial_head* head = &room->head;
    if (!place->record) return 0;
    const __u64 own = read_own_set(room, place->record);
    const int whole = own && head->total_bytes <= LABEL_CHUNK_BYTES;
    if (own) room->id = own_set_id(&room->last, room->execution, place->record, head->serial);
    if (whole) {
      room->own.begin = place->record;
      room->own.end = place->record + head->total_bytes;
      room->own.id = room->id;
    }
    if (own && !room->whole && last_was_sent(&room->last, room->epoch)) return 0;
    if (whole)
      append_own_set(room, place->record, own);
    else
      copy_foreign_array(out, place->record, address_mask);
  } else {
    copy_set(out, shape, place, address_mask);
  }
  return 1;
}

/// Names the content of a set that has no id yet.
VERIFIED_ALONE int name_chunks(struct label_room* room) {
  if (!room) return 0;
  struct label_buffer* out = &room->out;
  room->id = hash_chunks(out, room->kept_at, out->used - room->kept_at, room->execution);
  if (!room->whole && was_sent(room->id, room->epoch)) out->used = room->kept_at;
  return 0;
}

/// After append_content().
static __always_inline void name_content(struct label_room* room) {
  struct label_buffer* out = &room->out;
  // What is not whole now may be the next time.
  if (out->used == room->kept_at || out->cut + out->faults != room->trouble) {
    if (room->id) room->own.id = 0;
    room->id = 0;
  } else if (!room->id) {
    name_chunks(room);
  }
}

#ifdef NOTES_LABELS
/// Of the set that was appended last, if there is one: what it follows from.
VERIFIED_ALONE int note_label_words(struct label_room* room, __u32 shape, __u32 tls_kind) {
  if (!room) return 0;
  struct label_words* words = &room->words;
  const struct slot_place* place = &room->place;
  const __u64 if_own =
      vitrine_if_zero((shape ^ VITRINE_LABEL_ARRAY) | (room->own.begin ^ place->record)) &
      ~vitrine_if_zero(room->own.id);
  const __u64 if_of_own =
      vitrine_if_zero(shape ^ VITRINE_SIZED_RECORD) & if_in(&room->own, place->record);
  const __u64 if_empty =
      vitrine_if_zero(place->record) & ~vitrine_if_zero(shape ^ VITRINE_LABEL_ARRAY_IN_SLOT);
  const __u64 is_unclear = words->count / LABEL_WORDS | (place->state ^ VITRINE_SLOT_READ) |
                           (tls_kind ^ VITRINE_TLS_STATIC) | (words->set & if_own) |
                           ~(if_own | if_of_own | if_empty);
  words->is_unclear |= ~vitrine_if_zero(is_unclear) & 1;
  words->set += (place->record - words->set) & if_own;
  words->serial += (room->last.serial - words->serial) & if_own;
  struct known_slot* slot = &words->slot[bounded(words->count, LABEL_WORDS)];
  slot->address = place->address;
  slot->word = place->slot;
  words->shape[bounded(words->count, LABEL_WORDS)] = shape;
  words->count++;
  return 0;
}
#else
// Where a function does not use what it is given, clang gives it nothing; the verifier of Linux 6.1 minds.
#define note_label_words(room, shape, tls_kind) asm volatile("" : : "r"(tls_kind))
#endif

/// Into room->place.
VERIFIED_ALONE int find_slot_of(struct label_room* room, const struct vitrine_target* target,
                                __u32 index) {
  if (!room || !target) return 0;
  find_slot(&room->place, &target->definitions[bounded(index, VITRINE_DEFINITIONS)], target,
            room->thread_pointer, &room->before);
  return 0;
}

/// Appends the set that room->place leads to. Returns 0 when there is no room.
VERIFIED_ALONE int append_set_of_place(struct label_room* room, __u32 number, __u32 shape,
                                       __u32 tls_kind, __u64 address_mask) {
  if (!room) return 0;
  const struct slot_place* place = &room->place;
  struct label_buffer* out = &room->out;
  room->set_at = out->used;
  if (!append(out, sizeof(struct vitrine_fire_set))) return 0;
  if (place->state == VITRINE_SLOT_UNREADABLE) out->faults++;
  room->fresh_at = room->kept_at = out->used;
  room->id = 0;
  if (place->state == VITRINE_SLOT_READ && append_content(room, shape, address_mask))
    name_content(room);
  const __u64 id = room->id;
  note_label_words(room, shape, tls_kind);
  if (id && out->used != room->kept_at) {
    room->new_set[bounded(room->new_sets, VITRINE_DEFINITIONS)] = id;
    room->new_sets++;
  }
  struct vitrine_fire_set* head = piece_at(out, room->set_at);
  head->id = id;
  head->slot_address = place->address;
  head->slot = place->slot;
  head->definition = number;
  head->state = place->state;
  head->fresh_bytes = room->kept_at - room->fresh_at;
  head->kept_bytes = out->used - room->kept_at;
  return 1;
}

/// Appends the set of a definition. Returns 0 when there is no room.
static __always_inline int append_set(struct label_room* room, const struct vitrine_target* target,
                                      __u32 index) {
  const struct vitrine_definition* definition =
      &target->definitions[bounded(index, VITRINE_DEFINITIONS)];
  find_slot_of(room, target, index);
  return append_set_of_place(room, definition->number, definition->shape, definition->tls_kind,
                             target->address_mask);
}

struct definition_walk {
  struct label_room* room;
  const struct vitrine_target* target;
  __u32 done;
};

static long append_next_set(__u32 index, void* context) {
  struct definition_walk* walk = context;
  if (!append_set(walk->room, walk->target, index)) return 1;
  walk->done++;
  return 0;
}

static __always_inline void begin_sets(struct label_room* room, __u64 execution) {
  room->execution = execution;
  room->own.id = 0;
  room->before.address = 0;
}

/// Appends a vitrine_fire_set for each definition of the process. Returns how many had room.
static __always_inline __u32 append_sets(struct label_room* room,
                                         const struct vitrine_target* target, __u64 execution) {
  begin_sets(room, execution);
  struct definition_walk walk = {.room = room, .target = target};
  bpf_loop(target->definition_count, append_next_set, &walk, 0);
  return walk.done;
}

static long note_sent(__u32 index, void* context) {
  struct label_room* room = *(struct label_room**)context;
  const __u64 id = room->new_set[bounded(index, VITRINE_DEFINITIONS)];
  volatile __u64* mark = place_of_sent(id);
  if (mark) *mark = mark_of_sent(id, room->epoch);
  return 0;
}

/// Once the record that carries them can no longer be lost.
static __always_inline void note_all_sent(struct label_room* room) {
  if (room->new_sets) loop_rarely(room->new_sets, note_sent, &room);
}

/// Begins a record: what is noted of its sets is of the epoch that the reader keeps now.
static __always_inline void begin_record(struct label_room* room) {
  room->out.used = 0;
  room->out.cut = 0;
  room->out.faults = 0;
  room->new_sets = 0;
  room->epoch = config.epoch;
}

/// `task`: the current one. `epoch`: of the record.
static __always_inline void fill_header(struct vitrine_event_header* header,
                                        const struct task_struct* task,
                                        const struct process* process, __u64 now, __u32 epoch) {
  header->time_ns = now;
  header->process_start_ns = process->born;
  header->image = process->image;
  header->kind = 0;
  header->flags = process->flags;
  header->kernel_tgid = process->tgid;
  header->cpu = bpf_get_smp_processor_id();
  header->epoch = epoch;
  header->sets = 0;
  // Always with a NUL at its end. By plain loads, not the helper: a fortieth of a whole event less.
  const __u64* comm = (const __u64*)task->comm;
  ((__u64*)header->comm)[0] = comm[0];
  ((__u64*)header->comm)[1] = comm[1];
}

/// With a frame of its own.
static __noinline int fill_ids_at_level(struct vitrine_event_header* header,
                                        const struct task_struct* task) {
  header->tid = tid_in_namespace(task, config.pid_level, config.pid_namespace);
  header->pid =
      tid_in_namespace(BPF_CORE_READ(task, group_leader), config.pid_level, config.pid_namespace);
  return 0;
}

static __always_inline void fill_ids(struct vitrine_event_header* header,
                                     const struct task_struct* task) {
  header->pid = task->tgid;
  header->tid = task->pid;
  if (config.pid_level) fill_ids_at_level(header, task);
}

/// How a record is sent: without a wake-up unless the buffer fills, or something cannot wait.
static __always_inline __u64 wake_up_flags(int at_once) {
  if (!at_once &&
      (!reader_waits || bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) < config.wake_bytes))
    return BPF_RB_NO_WAKEUP;
  reader_waits = 0;
  return BPF_RB_FORCE_WAKEUP;
}

/// Sends the first `used` bytes of the record, at most `most`. Returns whether it had room.
static __always_inline int submit(const struct label_buffer* record, __u64 used, __u64 most,
                                  int at_once) {
  asm volatile("" : "+r"(used));
  if (used > most) return 0;
  return bpf_ringbuf_output(&events, (void*)record->bytes, used, wake_up_flags(at_once)) == 0;
}
