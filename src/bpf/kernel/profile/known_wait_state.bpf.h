// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// What known_wait.bpf.h keeps of a thread's last wait.
#pragma once

#include "bpf/kernel/profile/known_thread_state.bpf.h"

#define KNOWN_USER_SLOTS 64 /* a power of two */

#define FRAME_POINTER_REGISTER 1 /* in place of an address */

/// All that the name of a row was made of.
struct known_wait {
  struct thread_facts facts;
  __u64 pc, sp;
  __u64 kernel_stack; /* known_kernel_stack.number; 0: there is none */
  __u32 space;
  __u32 user_slots;
  __u32 is_learnt; /* this wait, and is_like: it is like the one before, as far as that is known */
  __u32 is_like;
  struct label_words labels;
  struct known_slot user[KNOWN_USER_SLOTS];
};
