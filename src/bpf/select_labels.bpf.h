// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The values of a few label keys (config.selected), looked up in the sets of the thread that fired.
#pragma once

#include "names.bpf.h"
#include "task.bpf.h"
#include "trace_labels.bpf.h"

struct selected_values {
  __u64 hash[VITRINE_SELECTED_LABELS]; /* 0: not set */
};

/// What was found in sets of our own writer, by own_set_id.
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
  __u64 at, end; /* in a record's attributes */
  struct selected_values found;
};

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

/// The first entry of a key counts.
static long select_from_entry(__u32 index, void* context) {
  struct selection* selection = context;
  struct scratch* s = selection->s;
  const struct label_entry* entry =
      (const struct label_entry*)(s->work + bounded(index, LABEL_ENTRIES) * sizeof *entry);
  const __u64 key = entry->key & selection->mask, key_length = entry->key_length;
  const __u64 value = entry->value & selection->mask, value_length = entry->value_length;
  if (!key || !value) return 0;
  for (int i = 0; i < VITRINE_SELECTED_LABELS; ++i)
    if (!selection->found.hash[i] && key_is(s, &config.selected[i], key, key_length))
      selection->found.hash[i] = name_of_user(s, value, value_length);
  return 0;
}

static __always_inline void select_from_array(struct selection* selection, __u64 storage,
                                              __u64 entries) {
  if (entries > LABEL_ENTRIES) {
    count(VITRINE_TRACE_CUT, 1);
    entries = LABEL_ENTRIES;
  }
  const __u64 size = bounded(entries * sizeof(struct label_entry), 2 * WORK_BYTES);
  if (size == 0 || size > WORK_BYTES) return;
  if (read_user(selection->s->work, size, storage & selection->mask)) {
    count(VITRINE_TRACE_FAULTS, 1);
    return;
  }
  bpf_loop(entries, select_from_entry, selection, 0);
}

static __always_inline void select_from_set(struct selection* selection, __u32 tgid, __u64 set) {
  struct serial_head head = {};
  const int own = read_serial_head(&head, set);
  const __u64 id = own ? own_set_id(tgid, set, head.serial) : 0;
  const struct selected_values* before = own ? bpf_map_lookup_elem(&found_before, &id) : 0;
  if (before) {
    selection->found = *before;
    return;
  }
  if (!own && READ_USER(&head, 24, set)) {
    count(VITRINE_TRACE_FAULTS, 1);
    return;
  }
  select_from_array(selection, head.storage, head.count);
  if (own) bpf_map_update_elem(&found_before, &id, &selection->found, BPF_ANY);
}

/// An attribute of a thread record: the last one of a key counts.
static long select_from_attribute(__u32 index, void* context) {
  struct selection* selection = context;
  struct scratch* s = selection->s;
  const __u64 at = selection->at;
  if (at + 2 > selection->end) return 1;
  const __u8* attribute = s->work + bounded(at, WORK_BYTES);
  const __u32 number = attribute[0];
  const __u64 length = attribute[1];
  if (at + 2 + length > selection->end) return 1;
  for (int i = 0; i < VITRINE_SELECTED_LABELS; ++i)
    if (config.selected[i].kind == VITRINE_SELECT_LABEL &&
        selection->definition->selected_key[i] == number + 1)
      selection->found.hash[i] = name_of_copy(s, offsetof(struct scratch, work) + at + 2, length);
  selection->at = at + 2 + length;
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
    if (config.selected[i].kind == VITRINE_SELECT_TRACE_ID)
      selection->found.hash[i] = name_of_copy(s, work + trace, 16);
    if (config.selected[i].kind == VITRINE_SELECT_SPAN_ID)
      selection->found.hash[i] = name_of_copy(s, work + span, 8);
  }
}

/// Layouts: abi/thread_context.hpp, abi/elastic.hpp.
static __always_inline void select_from_record(struct selection* selection, __u32 shape,
                                               __u64 record) {
  struct scratch* s = selection->s;
  const __u32 header = shape == VITRINE_SIZED_RECORD     ? 28
                       : shape == VITRINE_COUNTED_RECORD ? 34
                                                         : 37;
  if (read_user(s->work, 37, record) && read_user(s->work, 28, record)) {
    count(VITRINE_TRACE_FAULTS, 1);
    return;
  }
  if (shape == VITRINE_FIXED_RECORD) {
    if (s->work[2] == 1 && s->work[3] == 1) select_ids(selection, 5, 21);
    return;
  }
  if (s->work[shape == VITRINE_SIZED_RECORD ? 24 : 32] != 1) return;
  select_ids(selection, 0, 16);
  // Of a counted record the attributes' size is not told; they end with their number.
  __u64 size = *(const __u16*)(s->work + 26);
  __u64 most = 256;
  if (shape == VITRINE_COUNTED_RECORD) {
    most = s->work[33];
    size = RECORD_WINDOW;
  }
  if (size > RECORD_WINDOW) size = RECORD_WINDOW;
  __u64 attributes = record + header;
  if (shape == VITRINE_COUNTED_RECORD) {
    const __u64 in_page = 4096 - (attributes & 4095);
    if (in_page < size) size = in_page;
  }
  size = bounded(size, 2 * RECORD_WINDOW);
  if (size == 0 || size > RECORD_WINDOW) return;
  if (read_user(s->work, size, attributes)) {
    count(VITRINE_TRACE_FAULTS, 1);
    return;
  }
  selection->at = 0;
  selection->end = size;
  bpf_loop(most, select_from_attribute, selection, 0);
}

struct selection_walk {
  struct scratch* s;
  __u32 tgid;
  const struct vitrine_target* target;
  __u64 tp;
};

static long select_from_definition(__u32 index, void* context) {
  struct selection_walk* walk = context;
  struct scratch* s = walk->s;
  struct selection selection = {.s = s, .mask = walk->target->address_mask};
  selection.definition = &walk->target->definitions[bounded(index, VITRINE_DEFINITIONS)];
  struct slot_place place = {};
  find_slot(&place, selection.definition, walk->target, walk->tp);
  if (place.state == VITRINE_SLOT_UNREADABLE) count(VITRINE_TRACE_FAULTS, 1);
  if (place.state != VITRINE_SLOT_READ) return 0;
  const __u32 shape = selection.definition->shape;
  if (shape == VITRINE_LABEL_ARRAY_IN_SLOT) {
    __u64 entries = 0;
    if (peek(&entries, place.address + 8)) return 0;
    select_from_array(&selection, place.slot, entries);
  } else if (!place.record) {
    return 0;
  } else if (shape == VITRINE_LABEL_ARRAY) {
    select_from_set(&selection, walk->tgid, place.record);
  } else {
    select_from_record(&selection, shape, place.record);
  }
  for (int i = 0; i < VITRINE_SELECTED_LABELS; ++i)
    if (!s->label[i]) s->label[i] = selection.found.hash[i];
  return 0;
}

/// Fills s->label.
VERIFIED_ALONE int select_labels(struct scratch* s, const struct vitrine_target* target,
                                 __u32 tgid) {
  if (!s || !target) return 0;
  struct selection_walk walk = {.s = s, .tgid = tgid, .target = target};
  walk.tp = thread_pointer_of((struct task_struct*)bpf_get_current_task());
  bpf_loop(target->definition_count, select_from_definition, &walk, 0);
  return 0;
}
