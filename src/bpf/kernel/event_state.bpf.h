// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// What every program that tells of threads at a moment keeps: its settings, the tables of processes
// and of label sets, and the room to gather labels in. Included after kernel_types.bpf.h, libbpf's
// helpers, and a READ_USER of the program's own if it has one.
#pragma once

#include <stddef.h>

#include "../wire/event.h"
#include "read_labels.bpf.h"

#define COUNTERS 16 /* of any program */

/// Written by the loader, also while we run.
struct vitrine_event_config config;
__u32 reader_waits;

/// A function that the verifier looks at once, by itself, whatever calls it: what it is given may be
/// null, for all it knows.
#define VERIFIED_ALONE __attribute__((noinline))

/// The block of our own writer's set in force. Its thread record is in it too, and as immutable: it
/// needs no look.
struct own_block {
  __u64 id; /* 0: there is none */
  __u64 begin, end;
};

/// What the last moment that used this room knew of a set of our own writer: the next is most often
/// under the same, and spared the hashing and the looking up.
struct last_set {
  __u64 set, serial, execution;
  __u64 id;         /* of these; 0: there is none yet */
  __u32 sent_epoch; /* in which a record has carried it; 0: not known to */
  __u32 reserved;
};

/// Where the labels of one moment are gathered, and with them its record. Part of a program's scratch.
struct label_room {
  __u64 thread_pointer;
  __u32 new_sets; /* of new_set */
  __u32 whole;    /* sets are not left out, though records have carried them */
  __u64 new_set[VITRINE_DEFINITIONS];
  struct own_block own;
  struct last_set last; /* outlives the moment */
  struct slot_before before;
  /* Of the definition that is looked at. Here, to spare the stack. */
  struct slot_place place;
  struct serial_head head;
  __u64 set_at, fresh_at, kept_at; /* where the pieces of its set begin */
  __u64 trouble;                   /* out.cut + out.faults before */
  struct label_buffer out;
};

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __uint(max_entries, 65536);
  __type(key, __u32);  // tgid, in the initial pid namespace
  __type(value, struct vitrine_target);
} targets SEC(".maps");

/// What is assumed of processes that nothing is known of.
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 1024);
  __type(key, struct vitrine_executable);
  __type(value, struct vitrine_target);
} assumed SEC(".maps");

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
  __uint(max_entries, COUNTERS);
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
