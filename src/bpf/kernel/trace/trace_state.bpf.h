// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// What the tracing program keeps: its settings, its tables, and the room to work in. Included after
// kernel_types.bpf.h and libbpf's helpers.
#pragma once

#include "bpf/wire/trace.h"

// Constant for a whole trace: the verifier leaves out what follows from the opposite.

/// Some fires are added up: what is hashed must be kept by name.
const volatile int adds_up = 0;
/// What events carry: label sets, the user stack, the user and the control group.
const volatile int carries_labels = 0, carries_stacks = 0, carries_origins = 0;
/// In the initial PID namespace: a process whose fires are passed over; or 0.
const volatile __u32 own_tgid = 0;

/// Written by the loader, also while we run.
struct vitrine_trace_config trace_config;

/// Memory of this thread, also where it is in no page yet. Not by bpf_copy_from_user: that touches
/// the page as the thread itself would, and of a userfaultfd that no process serves it never comes. The
/// thread would wait in here, and so would every tracer of this machine that detaches, until this
/// has ended. What reads another task's memory is refused such a page.
static __always_inline long copy_from_user(void* into, __u32 size, __u64 address) {
  return bpf_copy_from_user_task(into, size, (const void*)address, bpf_get_current_task_btf(), 0);
}

/// A sleepable program waits for a page of the target, where an interrupt would have to go without.
static __always_inline long read_user(void* into, __u32 size, __u64 address) {
  long error = bpf_probe_read_user(into, size, (const void*)address);
  if (error) error = copy_from_user(into, size, address);
  return error;
}

#define READ_USER(into, size, address) read_user(into, size, address)
#include "bpf/kernel/event_state.bpf.h"

_Static_assert(VITRINE_TRACE_COUNTERS <= COUNTERS, "room for every counter");

#define WORK_BYTES (LABEL_ENTRIES * 32)

struct selected_values {
  __u64 hash[VITRINE_SELECTED_LABELS]; /* 0: not set */
};

/// The process of the fire that used this room last (known_process.bpf.h).
struct known_process {
  __u64 changes; /* of the tables, when it was looked up; CHANGES_UNDER_WAY: it must be again */
  __u64 born, image;
  __u32 tgid;
  __u32 has_target;
  struct vitrine_target target;
};

/// Room for one fire.
struct scratch {
  __u32 claimed, index;
  __u64 registers[64];
  __u64 shown; /* bit i: registers[i] holds something */
  __u64 value[32];
  __u64 text_at[32]; /* offset of captured bytes in `out`; 0: none */
  __u32 text_length[32];
  __u8 state[32]; /* enum vitrine_captured_state */
  __u8 cut[32];   /* there was more than what is captured */
  /* Of the steps: here, not on the stack, where the verifier would follow each number. */
  __u64 operands[VITRINE_CALCULATION_DEPTH]; /* a stack */
  __u64 failed;                              /* the address that could not be read */
  __u32 depth;                               /* numbers on the stack */
  __u32 failure;                             /* of the capture under way: the first state */
  __u64 calculated[32];
  __u8 calculated_state[32];
  __u64 label[VITRINE_SELECTED_LABELS];
  __u64 unread_labels; /* pieces of the labels of this fire that the search could not read */
  __u64 found_id; /* whose selected labels `found_last` are: as room.last, it outlives the fire */
  struct selected_values found_last;
  /* Of a search through one set: here, not on the stack, where the verifier would follow it. */
  struct selected_values found;
  __u32 without_value;             /* bit i: the first entry of selected label i has a null value */
  __u64 attribute, attributes_end; /* in `work` */
  __u64 attributes_read;
  struct known_process known; /* outlives the fire, too */
  struct vitrine_group group;
  struct vitrine_name name;
  struct vitrine_kept_start kept;
  __u8 key[VITRINE_KEY_BYTES];
  __u8 work[WORK_BYTES + 512]; /* a label array, or a thread record */
  struct label_room room;
};

#define SCRATCHES_PER_CPU 4
#include "bpf/kernel/scratch.bpf.h"

struct program_table {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, VITRINE_TABLE_PROGRAMS);
  __uint(key_size, sizeof(__u32));
  __uint(value_size, sizeof(struct vitrine_site_program));
};

/// The loader makes the tables as they are needed.
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
  __uint(max_entries, VITRINE_TABLES);
  __type(key, __u32);
  __array(values, struct program_table);
} programs SEC(".maps");

static __always_inline const struct vitrine_site_program* program_of(__u32 index) {
  const __u32 number = index / VITRINE_TABLE_PROGRAMS;
  void* table = bpf_map_lookup_elem(&programs, &number);
  if (!table) return 0;
  const __u32 place = index % VITRINE_TABLE_PROGRAMS;
  return bpf_map_lookup_elem(table, &place);
}
