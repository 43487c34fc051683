// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// What known_thread.bpf.h keeps of a thread's last sample on a CPU.
#pragma once

#include "bpf/kernel/label_words.bpf.h"
#include "bpf/wire/event.h"

/// Of a thread, beside its labels and stacks: what is compared as it is.
struct thread_facts {
  __u64 born; /* the thread */
  __u64 execution, image;
  __u64 given_ns; /* what is known of its process */
  __u64 thread_pointer;
  __u64 comm[2];
  __u64 cpu_and_flags;
};

#define KNOWN_THREADS 32 /* of one CPU; a power of two */
#define KNOWN_SETS 2     /* of a thread: those of vitrine's writer */

/// What the name of a row is made of but for the stacks, and what that led to.
struct known_thread {
  __u32 tid; /* 0: of none yet */
  __u32 sets;
  __u32 sent_epoch; /* in which records have carried all of the sets; 0: none that is known */
  __u32 reserved;
  struct thread_facts facts;
  struct label_words labels;
  struct vitrine_hash_state hash;
  __u64 address_mask, ids, span_at; /* as of row_state, and these ids */
  __u64 trace_id[2], span_id;
  struct vitrine_fire_set set[KNOWN_SETS]; /* without their content */
};
