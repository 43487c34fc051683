// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The values of a few label keys (trace_config.selected), looked up in the sets of the thread
// that fired.
#pragma once

#include "bpf/kernel/event.bpf.h"
#include "bpf/kernel/task.bpf.h"
#include "bpf/kernel/trace/names.bpf.h"

/// What was found in sets of vitrine's writer, by own_set_id.
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 16384);
  __type(key, __u64);
  __type(value, struct selected_values);
} found_before SEC(".maps");

struct selection {
  struct scratch* s;
  const struct vitrine_definition* definition;
  __u64 mask;
};

/// A piece of the labels that the search could not read, or has no room for.
static __always_inline void count_unread(struct scratch* s, __u32 counter) {
  count(counter, 1);
  s->unread_labels++;
}

static __always_inline int key_is(struct scratch* s, const struct vitrine_selected_label* wanted,
                                  __u64 key, __u64 length) {
  if (wanted->kind != VITRINE_SELECT_LABEL || wanted->length != length) return 0;
  if (length == 0) return 1;
  const __u64* left = (const __u64*)wanted->key;
  __u64* right = (__u64*)s->key;
#pragma unroll
  for (int i = 0; i < VITRINE_KEY_BYTES / 8; ++i) right[i] = 0;
  const __u64 size = bounded(length, 2 * VITRINE_KEY_BYTES);
  if (size > VITRINE_KEY_BYTES || read_user(s->key, size, key)) return 0;
  __u64 differing = 0;
#pragma unroll
  for (int i = 0; i < VITRINE_KEY_BYTES / 8; ++i) differing |= left[i] ^ right[i];
  return differing == 0;
}

/// The first entry of a key counts, also one with a null value, which is no label.
static long select_from_entry(__u32 index, void* context) {
  struct selection* selection = context;
  struct scratch* s = selection->s;
  const struct label_entry* entry =
      (const struct label_entry*)(s->work + bounded(index, LABEL_ENTRIES) * sizeof *entry);
  const __u64 key = entry->key & selection->mask, key_length = entry->key_length;
  const __u64 value = entry->value & selection->mask, value_length = entry->value_length;
  if (!key) return 0;
  for (int i = 0; i < VITRINE_SELECTED_LABELS; ++i) {
    if (s->found.hash[i] || (s->without_value >> i & 1) ||
        !key_is(s, &trace_config.selected[i], key, key_length))
      continue;
    if (value)
      s->found.hash[i] = name_of_user(s, value, value_length, trace_config.selected[i].is_grouped);
    else
      s->without_value |= 1U << i;
  }
  return 0;
}

static __always_inline void select_from_array(struct selection* selection, __u64 storage,
                                              __u64 entries) {
  if (entries > LABEL_ENTRIES) {
    count_unread(selection->s, VITRINE_TRACE_CUT);
    entries = LABEL_ENTRIES;
  }
  const __u64 size = bounded(entries * sizeof(struct label_entry), 2 * WORK_BYTES);
  if (size == 0 || size > WORK_BYTES) return;
  if (read_user(selection->s->work, size, storage & selection->mask)) {
    count_unread(selection->s, VITRINE_TRACE_FAULTS);
    return;
  }
  bpf_loop(entries, select_from_entry, selection, 0);
}

/// Whether the set of vitrine's writer with this id was searched before: s->found is what was found.
static __always_inline int recall_found(struct scratch* s, __u64 id) {
  if (s->found_id != id) {
    const struct selected_values* before = bpf_map_lookup_elem(&found_before, &id);
    if (!before) return 0;
    s->found_last = *before;
    s->found_id = id;
  }
  s->found = s->found_last;
  return 1;
}

/// Keeps s->found.
static __always_inline void remember_found(const struct scratch* s, __u64 id) {
  const struct scratch* element = as_element(s);
  if (element) bpf_map_update_elem(&found_before, &id, &element->found, BPF_ANY);
}

/// Notes whether the set is one of vitrine's writer.
static __always_inline void select_from_set(struct selection* selection, __u64 execution,
                                            __u64 set) {
  struct own_block* block = &selection->s->room.own;
  struct serial_head* head = &selection->s->room.head;
  const int own = read_serial_head(head, set);
  const __u64 id = own ? own_set_id(&selection->s->room.last, execution, set, head->serial) : 0;
  block->id = id;
  block->begin = set;
  block->end = set + head->total_bytes;
  if (own && recall_found(selection->s, id)) return;
  if (!own && READ_USER(head, 24, set)) {
    count_unread(selection->s, VITRINE_TRACE_FAULTS);
    return;
  }
  select_from_array(selection, head->storage, head->count);
  if (own) remember_found(selection->s, id);
}

/// An attribute of a thread record: the last one of a key counts.
static long select_from_attribute(__u32 index, void* context) {
  struct selection* selection = context;
  struct scratch* s = selection->s;
  const __u64 at = s->attribute;
  if (at + 2 > s->attributes_end) return 1;
  const __u8* attribute = s->work + bounded(at, WORK_BYTES);
  const __u32 number = attribute[0];
  const __u64 length = attribute[1];
  if (at + 2 + length > s->attributes_end) return 1;
  for (int i = 0; i < VITRINE_SELECTED_LABELS; ++i)
    if (trace_config.selected[i].kind == VITRINE_SELECT_LABEL &&
        selection->definition->selected_key[i] == number + 1)
      s->found.hash[i] = name_of_copy(s, offsetof(struct scratch, work) + at + 2, length, 0,
                                      trace_config.selected[i].is_grouped);
  s->attribute = at + 2 + length;
  s->attributes_read++;
  return 0;
}

/// Where in s->work a record's ids are. All zeros: there is no trace.
static __always_inline void select_ids(struct selection* selection, __u32 trace, __u32 span) {
  struct scratch* s = selection->s;
  const __u32 work = offsetof(struct scratch, work);
  __u8 present = 0;
  for (int i = 0; i < 16; ++i) present |= s->work[trace + i];
  for (int i = 0; i < 8; ++i) present |= s->work[span + i];
  if (!present) return;
  for (int i = 0; i < VITRINE_SELECTED_LABELS; ++i) {
    if (trace_config.selected[i].kind == VITRINE_SELECT_TRACE_ID)
      s->found.hash[i] = name_of_copy(s, work + trace, 16, 0, trace_config.selected[i].is_grouped);
    if (trace_config.selected[i].kind == VITRINE_SELECT_SPAN_ID)
      s->found.hash[i] = name_of_copy(s, work + span, 8, 0, trace_config.selected[i].is_grouped);
  }
}

/// Reads what may be of the attributes of a counted record, as copy_counted_record(): the next page need not be there.
/// Returns how many bytes of it are in s->work.
VERIFIED_ALONE __u64 read_counted_attributes(struct scratch* s, __u64 attributes) {
  if (!s) return 0;
  const __u64 in_page = 4096 - (attributes & 4095);
  if (in_page >= RECORD_WINDOW)
    return read_user(s->work, RECORD_WINDOW, attributes) ? 0 : RECORD_WINDOW;
  const __u64 first = bounded(in_page, RECORD_WINDOW);
  if (first == 0 || read_user(s->work, first, attributes)) return 0;
  const __u64 rest = bounded(RECORD_WINDOW - first, 2 * RECORD_WINDOW);
  if (rest > RECORD_WINDOW || read_user(s->work + first, rest, attributes + first)) return first;
  return RECORD_WINDOW;
}

/// Layouts: abi/thread_context.hpp, abi/elastic.hpp.
static __always_inline void select_from_record(struct selection* selection, __u32 shape,
                                               __u64 record) {
  struct scratch* s = selection->s;
  const __u32 header = shape == VITRINE_SIZED_RECORD     ? 28
                       : shape == VITRINE_COUNTED_RECORD ? 34
                                                         : 37;
  if (read_user(s->work, 37, record) && read_user(s->work, 28, record)) {
    count_unread(s, VITRINE_TRACE_FAULTS);
    return;
  }
  if (shape == VITRINE_FIXED_RECORD) {
    if (s->work[2] == 1 && s->work[3] == 1) select_ids(selection, 5, 21);
    return;
  }
  if (s->work[shape == VITRINE_SIZED_RECORD ? 24 : 32] != 1) return;
  select_ids(selection, 0, 16);
  s->attribute = s->attributes_read = 0;
  if (shape == VITRINE_COUNTED_RECORD) {
    // The attributes' size is not known; they end with their number.
    const __u64 most = s->work[33];
    if (most == 0) return;
    s->attributes_end = read_counted_attributes(s, record + header);
    if (!s->attributes_end) {
      count_unread(s, VITRINE_TRACE_FAULTS);
      return;
    }
    bpf_loop(most, select_from_attribute, selection, 0);
    if (s->attributes_read < most) count_unread(s, VITRINE_TRACE_CUT);
    return;
  }
  __u64 size = *(const __u16*)(s->work + 26);
  if (size > RECORD_WINDOW) {
    count_unread(s, VITRINE_TRACE_CUT);
    size = RECORD_WINDOW;
  }
  size = bounded(size, 2 * RECORD_WINDOW);
  if (size == 0 || size > RECORD_WINDOW) return;
  if (read_user(s->work, size, record + header)) {
    count_unread(s, VITRINE_TRACE_FAULTS);
    return;
  }
  s->attributes_end = size;
  bpf_loop(256, select_from_attribute, selection, 0);
}

/// Of what was found in the record in a block of vitrine's writer: even, where those of sets are odd. It is another once
/// the numbers of the selected keys are others.
static __always_inline __u64 found_id_of(const struct own_block* block,
                                         const struct vitrine_definition* definition) {
  _Static_assert(sizeof definition->selected_key == sizeof(__u64), "one word");
  return (block->id - 1) ^ *(const __u64*)definition->selected_key << 1;
}

/// The same once for all fires with vitrine's writer's block in force.
static __always_inline void select_from_record_in(struct selection* selection,
                                                  const struct own_block* block, __u32 shape,
                                                  __u64 record) {
  const __u64 id = found_id_of(block, selection->definition);
  const struct selected_values* before = bpf_map_lookup_elem(&found_before, &id);
  if (before) {
    selection->s->found = *before;
    return;
  }
  select_from_record(selection, shape, record);
  remember_found(selection->s, id);
}

/// Returns whether every selected label has been found by now.
VERIFIED_ALONE int select_from_definition(struct scratch* s, const struct vitrine_target* target,
                                          __u32 index) {
  if (!s || !target) return 0;
  struct selection selection = {.s = s, .mask = target->address_mask};
  selection.definition = &target->definitions[bounded(index, VITRINE_DEFINITIONS)];
  const __u32 shape = selection.definition->shape;
  for (int i = 0; i < VITRINE_SELECTED_LABELS; ++i) s->found.hash[i] = 0;
  s->without_value = 0;
  struct slot_place* place = &s->room.place;
  find_slot(place, selection.definition, target, s->room.thread_pointer, &s->room.before);
  if (place->state == VITRINE_SLOT_UNREADABLE) count_unread(s, VITRINE_TRACE_FAULTS);
  if (place->state != VITRINE_SLOT_READ) return 0;
  if (shape == VITRINE_LABEL_ARRAY_IN_SLOT) {
    __u64 entries = 0;
    if (peek(&entries, place->address + 8)) return 0;
    select_from_array(&selection, place->slot, entries);
  } else if (!place->record) {
    return 0;
  } else if (shape == VITRINE_LABEL_ARRAY) {
    select_from_set(&selection, s->room.execution, place->record);
  } else if (shape == VITRINE_SIZED_RECORD && if_in(&s->room.own, place->record)) {
    select_from_record_in(&selection, &s->room.own, shape, place->record);
  } else {
    select_from_record(&selection, shape, place->record);
  }
  int missing = 0;
  for (int i = 0; i < VITRINE_SELECTED_LABELS; ++i) {
    if (!s->label[i]) s->label[i] = s->found.hash[i];
    if (!s->label[i] && trace_config.selected[i].kind != VITRINE_SELECT_NONE) missing = 1;
  }
  return !missing;
}

struct selection_walk {
  struct scratch* s;
  const struct vitrine_target* target;
};

static long select_from_next_definition(__u32 index, void* context) {
  struct selection_walk* walk = context;
  int done = select_from_definition(walk->s, walk->target, index);
  // clang 19 knows that this is 0 or 1 and returns it as it is; the verifier, which looks at that function
  // by itself, does not know.
  asm volatile("" : "+r"(done));
  return done != 0;
}

/// Fills s->label, which is all zeros.
static __always_inline void select_labels(struct scratch* s, const struct vitrine_target* target,
                                          __u64 execution) {
  s->room.execution = execution;
  s->room.own.id = 0;
  s->room.before.address = 0;
  struct selection_walk walk = {.s = s, .target = target};
  bpf_loop(target->definition_count, select_from_next_definition, &walk, 0);
}
