// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// What the unwinder of unwind.bpf.h keeps in a program's scratch.
#pragma once

#include "bpf/kernel/profile/known_wait_state.bpf.h"
#include "bpf/wire/unwind.h"

/// The rule of an address, kept from one sample to the next.
struct known_rule {
  __u64 lookup;
  __u32 space;
  __u32 code;
};

#define KNOWN_RULES 4096
#define NEAR_RULES 128    /* those used last, in adjacent memory */
#define WINDOW_BYTES 1024 /* of the stack, read at once; a power of two */

#define REGION_STEPS __builtin_ctz(VITRINE_UNWIND_REGIONS)

/// A search for the last region of a process that begins at an address or below.
struct region_search {
  __u64 first, count; /* of its regions */
  __u64 address;
  __u64 below; /* so many are known to begin there or below */
};

/// One stack, as far as it is unwound.
struct unwinding {
  __u64 sp, fp, pc, link;
  __u64 low; /* no caller's frame ends below */
  __u64 frames_at, registers_at;
  __u32 space;
  __u32 frames;
  __u32 result; /* enum vitrine_unwound; 0: not yet */
  __u8 knows_sp, knows_fp, knows_link, knows_all;
  __u32 interrupted; /* the pc is where the function was, not where a call returns to */
  __u64 words[8];    /* read from the stack, or of code */
  __u64 fp_at;       /* where the frame pointer is from; 0: that is in `slot`, or not known */
  __u32 slots;       /* what the frames follow from; above KNOWN_USER_SLOTS: not all are there */
  __u32 needs_more;  /* they follow from more than that */
  struct known_slot slot[KNOWN_USER_SLOTS];
  struct region_search regions; /* of its process */
  struct vitrine_unwind_search search;
  __u64 window_at, window_bytes;
  __u64 window[WINDOW_BYTES / 8 + 1]; /* a word of any alignment is within */
};
