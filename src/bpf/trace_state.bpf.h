// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// What the tracing program keeps: its settings, its tables, and the room to work in. Included after
// kernel_types.bpf.h and libbpf's helpers.
#pragma once

#include <stddef.h>

#include "trace_wire.h"

const volatile __u32 scratch_count = 1;
/// Some fires are added up: what is hashed must be kept by name.
const volatile int adds_up = 0;

/// Written by the loader, also while we run.
struct vitrine_trace_config config;
__u32 reader_waits;

/// A sleepable program waits for a page of the target, where an interrupt would have to go without.
static __always_inline long read_user(void* into, __u32 size, __u64 address) {
  long error = bpf_probe_read_user(into, size, (const void*)address);
  if (error) error = bpf_copy_from_user(into, size, (const void*)address);
  return error;
}

#define READ_USER(into, size, address) read_user(into, size, address)
#include "read_labels.bpf.h"

#define WORK_BYTES (LABEL_ENTRIES * 32)

struct selected_values {
  __u64 hash[VITRINE_SELECTED_LABELS]; /* 0: not set */
};

/// The block of our own writer's set in force. Its thread record is in it too, and as immutable: it
/// needs no look.
struct own_block {
  __u64 id; /* 0: there is none */
  __u64 begin, end;
};

/// What the last fire that used this room knew of a set of our own writer: the next is most often
/// under the same, and spared the hashing and the looking up.
struct last_set {
  __u64 set, serial, execution;
  __u64 id;         /* of these; 0: there is none yet */
  __u32 sent_epoch; /* in which a record has carried it; 0: not known to */
  __u32 reserved;
  __u64 found_id; /* whose selected labels `found` are */
  struct selected_values found;
};

/// A function that the verifier looks at once, by itself, whatever calls it: what it is given may be
/// null, for all it knows.
#define VERIFIED_ALONE __attribute__((noinline))

/// Room for one fire. A uprobe's program can be preempted by another fire on the same CPU, or sleep
/// meanwhile, so this is not one a CPU: it is claimed, and given back.
struct scratch {
  __u32 claimed;
  __u32 new_sets; /* of new_set */
  __u64 registers[64];
  __u64 shown; /* bit i: registers[i] holds something */
  __u64 value[32];
  __u64 text_at[32]; /* offset of captured bytes in `out`; 0: none */
  __u32 text_length[32];
  __u8 state[32]; /* enum vitrine_captured_state */
  __u64 new_set[VITRINE_DEFINITIONS];
  __u64 label[VITRINE_SELECTED_LABELS];
  struct own_block own;
  struct last_set last; /* outlives the fire */
  struct slot_before before;
  /* Of a search through one set: here, not on the stack, where the verifier would follow it. */
  struct selected_values found;
  __u64 attribute, attributes_end; /* in `work` */
  struct vitrine_group group;
  struct vitrine_name name;
  __u8 key[VITRINE_KEY_BYTES];
  __u8 work[WORK_BYTES + 512]; /* a label array, or a thread record */
  struct label_buffer out;
};

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct scratch);
} scratches SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct vitrine_site_program);
} programs SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __uint(max_entries, 65536);
  __type(key, __u32);  // tgid, in the initial pid namespace
  __type(value, struct vitrine_target);
} targets SEC(".maps");

/// What is presumed of processes that nothing is known of.
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 1024);
  __type(key, struct vitrine_executable);
  __type(value, struct vitrine_target);
} presumed SEC(".maps");

/// Processes that the reader was woken for, and what they executed.
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 4096);
  __type(key, __u32);
  __type(value, __u64);
} announced SEC(".maps");

/// Label sets that records have carried: by id, the epoch it was in.
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 65536);
  __type(key, __u64);
  __type(value, __u32);
} sent SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, VITRINE_TRACE_COUNTERS);
  __type(key, __u32);
  __type(value, __u64);
} counters SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 16 << 20);
} events SEC(".maps");

/// Per CPU, but a fire may be preempted by another there: hence atomic, which costs little where
/// nobody else writes.
static __always_inline void count(__u32 counter, __u64 more) {
  __u64* value = more ? bpf_map_lookup_elem(&counters, &counter) : 0;
  if (value) __sync_fetch_and_add(value, more);
}

#define SCRATCHES_PER_CPU 4
#define SCRATCH_TRIES 16

/// Null when all that this CPU may use are taken.
static __always_inline struct scratch* claim_scratch(void) {
  const __u32 first = bpf_get_smp_processor_id() * SCRATCHES_PER_CPU;
  for (__u32 i = 0; i < SCRATCH_TRIES; ++i) {
    __u32 index = first + i;  // beyond its own, those of the next CPUs
    if (index >= scratch_count) index -= scratch_count;
    struct scratch* scratch = bpf_map_lookup_elem(&scratches, &index);
    if (scratch && __sync_val_compare_and_swap(&scratch->claimed, 0, 1) == 0) return scratch;
  }
  return 0;
}

static __always_inline void release_scratch(struct scratch* scratch) {
  __sync_lock_test_and_set(&scratch->claimed, 0);
}
