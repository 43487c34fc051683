/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What every program that reports threads at an event (a fire, a tick) shares with its loader: which
 * thread it was, and the label sets in force then (see wire.h). */
#pragma once

#include "bpf/wire/wire.h"
#include "query/keyed_hash.h"

/* A file that processes execute. */
struct vitrine_executable {
  __u64 inode;
  __u32 device; /* major << 20 | minor */
  __u32 reserved;
};

/* Of the loader. */
struct vitrine_event_config {
  struct vitrine_hash_key hash_key;
  __u64 wake_bytes;    /* a fill of the ring buffer that wakes the reader */
  __u32 pid_level;     /* of the reader's pid namespace */
  __u32 pid_namespace; /* inode number of it; 0 at level 0 */
  __u32 epoch;         /* raised to have every label set sent anew */
  __u32 reserved;
};

enum vitrine_fire_flag {
  VITRINE_FIRE_UNKNOWN = 1,   /* nothing is known of the process: no labels were read */
  VITRINE_FIRE_INHERITED = 2, /* read by what is known of the process that it was forked from */
  VITRINE_FIRE_CUT = 4,       /* something had no room in the record */
  VITRINE_FIRE_ASSUMED = 8,   /* read by what is known of other processes with the same executable:
                                 for the reader to confirm */
  VITRINE_FIRE_UNTESTED = 16, /* the condition was not tested, nor was it added up, as this wants
                                 labels that are not known, or not certain */
};

/* One execution of a process: by when that was born, its number, and how often it has executed a program. Without
 * randomised addresses, a program that it executes again has the same image. */
static inline __u64 vitrine_execution_of(__u64 born, __u32 tgid, __u32 exec_id) {
  return born ^ (__u64)tgid << 40 ^ exec_id * 0x9e3779b97f4a7c15ULL;
}

/* What every record begins with. Its label sets, each a vitrine_fire_set, come later in it. */
struct vitrine_event_header {
  __u64 time_ns;          /* CLOCK_MONOTONIC */
  __u64 process_start_ns; /* since boot: with kernel_tgid, which process */
  __u64 image;            /* vitrine_image_of the program that ran */
  __u32 kind;             /* of record: the program's own */
  __u32 flags;            /* enum vitrine_fire_flag, and the program's own */
  __s32 pid;              /* in the reader's pid namespace; 0: not visible there */
  __s32 tid;
  __s32 kernel_tgid; /* in the initial pid namespace */
  __u32 cpu;
  __u32 epoch; /* of the ids of its label sets */
  __u32 sets;
  char comm[16];
};

/* One label set, followed by `fresh_bytes` and then `kept_bytes` of vitrine_chunk and their bytes
 * (wire.h). Both together are what a decoder needs. Those kept are named by `id`, and are left out
 * when this epoch's records have carried them before; the fresh ones (the trace ids of a thread
 * record) come every time. An id of 0: nothing is kept. */
struct vitrine_fire_set {
  __u64 id;
  __u64 slot_address;
  __u64 slot;       /* its first 8 bytes */
  __u32 definition; /* vitrine_definition.number */
  __u32 state;      /* enum vitrine_slot_state */
  __u32 fresh_bytes;
  __u32 kept_bytes;
};
