// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// What kernel_stack.bpf.h keeps in a program's scratch.
#pragma once

#include <linux/types.h>

#define KNOWN_KERNEL_STACK_BITS 7
#define KNOWN_KERNEL_STACKS (1 << KNOWN_KERNEL_STACK_BITS) /* powers of two */
#define KNOWN_KERNEL_FRAMES 32
#define KERNEL_STACK_WORDS 256

/// Words from the return address below the registers of user code.
#define ENTRY_WORDS 21
#define ENTRY_FRAME_POINTER 5 /* of these: bp, orig_ax, ip, sp */
#define ENTRY_SYSTEM_CALL 16
#define ENTRY_PC 17
#define ENTRY_STACK_POINTER 20

struct known_kernel_stack {
  __u64 key;    /* of what it is a stack; 0: of nothing yet */
  __u64 pc;     /* where the thread was interrupted; 0: it left its CPU */
  __u64 number; /* it alone has it */
  __u32 frames;
  __u32 words;                     /* the slots are in so many */
  __u32 misses;                    /* since it was found last, or learnt */
  __u32 max_misses;                /* until another is learnt in its place */
  __u32 is_sure;                   /* it was learnt twice, alike */
  __u64 shape;                     /* of its slots */
  __u16 slot[KNOWN_KERNEL_FRAMES]; /* of each frame but the last */
  __u64 frame[KNOWN_KERNEL_FRAMES];
};

struct kernel_stack_state {
  __u64 from, to; /* of the stack, in memory: the words that are looked at, up to those registers */
  __u64 key;      /* 0: nothing is learnt */
  __u64 number;   /* of the stack that was known or learnt; 0: none */
  __u64 learnt_stacks;
  __u64 at;          /* the stack in the sample */
  __u32 frames;      /* that it has */
  __u32 place;       /* in `known` */
  __u64 is_kept_off; /* the thread could have run */
  __u32 words_read;  /* of `words` */
  __u64 address;     /* that is looked for in these */
  __u64 differs;     /* the slot that was looked at last, from what is known */
  __u32 times;       /* that it is there */
  __u32 found;       /* where it was last */
  __u64 entry[ENTRY_WORDS];
  /* The address where the thread was interrupted, or 0; then those of the stack. */
  __u64 words[KERNEL_STACK_WORDS + 1];
  struct known_kernel_stack learnt;
  struct known_kernel_stack known[KNOWN_KERNEL_STACKS];
};
