// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// What known_wait.bpf.h keeps of a thread's last wait.
#pragma once

#include <linux/types.h>

#define KNOWN_USER_SLOTS 64 /* a power of two */
#define KNOWN_LABEL_SLOTS 4 /* the same */

/// A word of the stack or of a thread's variables, where it was read.
struct known_slot {
  __u64 address;
  __u64 word;
};

#define FRAME_POINTER_REGISTER 1 /* in place of an address */

/// What is compared as it is.
struct wait_facts {
  __u64 born; /* the thread */
  __u64 execution, image;
  __u64 given_ns; /* what is known of its process */
  __u64 thread_pointer;
  __u64 comm[2];
  __u64 cpu_and_flags;
};

/// All that the name of a row was made of.
struct known_wait {
  struct wait_facts facts;
  __u64 pc, sp;
  __u64 kernel_stack; /* known_kernel_stack.number; 0: there is none */
  __u64 set, serial;  /* of vitrine's writer; 0: there is none */
  __u32 space;
  __u32 user_slots, label_slots;
  __u32 is_unclear; /* while it is learnt */
  __u32 is_learnt;  /* this wait, and is_like: it is like the one before, as far as that is known */
  __u32 is_like;
  struct known_slot label[KNOWN_LABEL_SLOTS];
  struct known_slot user[KNOWN_USER_SLOTS];
};
