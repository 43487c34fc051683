/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the programs in the kernel and their loaders exchange. Read by a C compiler for BPF
 * and by the C++ compiler: plain C, same layout in both. */
#pragma once

#include <linux/types.h>

/* One thread as the iterator saw it. */
struct vitrine_thread {
  __u64 start_time_ns; /* since boot */
  __u64 switches;      /* how often it was switched out, of its own will or not */
  __u64 thread_pointer;
  __s32 tid;         /* in the reader's pid namespace */
  __s32 kernel_tgid; /* of its process, in the initial pid namespace */
  __u32 pid_level;   /* how deep the reader's pid namespace is */
  __u32 at_rest;     /* it was on no CPU, and `switches` stood still around that look */
  char comm[16];
};

/* target/tls_location.hpp in the kernel's terms. */
enum vitrine_tls_kind { VITRINE_TLS_STATIC, VITRINE_TLS_GLIBC_DTV, VITRINE_TLS_MUSL_DTV };

enum vitrine_machine { VITRINE_X86_64, VITRINE_AARCH64 };

/* What a slot leads to: enough of a format to know which bytes a decoder will want. */
enum vitrine_shape {
  VITRINE_LABEL_ARRAY_IN_SLOT, /* custom-labels v0 */
  VITRINE_LABEL_ARRAY,         /* custom-labels v1 */
  VITRINE_SIZED_RECORD,        /* OTEP-4947 and drafts C, D: a header that has the size */
  VITRINE_COUNTED_RECORD,      /* drafts A, B: a header that has the number of attributes */
  VITRINE_FIXED_RECORD,        /* Elastic */
};

#define VITRINE_SELECTED_LABELS 4 /* keys that the kernel looks up: of --by and --where together */

struct vitrine_definition {
  __u32 shape;
  __u32 tls_kind;
  __s64 tls_offset;
  __u64 tls_module_id;
  __u64 tls_need_generation;
  /* Where a record names keys by number: that of each selected label, plus one; 0: it has none. */
  __u16 selected_key[VITRINE_SELECTED_LABELS];
  __u32 number; /* the reader's name of it, in each label set */
  __u32 reserved;
};

#define VITRINE_DEFINITIONS 16 /* of one process */

/* A process whose threads' labels are wanted. */
struct vitrine_target {
  __u32 definition_count;
  __u32 machine;
  __u32 pid_level;
  __u32 is_bystander; /* its threads are not asked for: they wake others, and have labels */
  __u64 address_mask; /* bits of a pointer that are its address */
  __u64 image; /* vitrine_image_of what it executed then; 0: whatever it executes; ~0: not known */
  /* CLOCK_BOOTTIME: what was forked later had the same; a process born later with its number is
   * another. */
  __u64 given_ns;
  struct vitrine_definition definitions[VITRINE_DEFINITIONS]; /* label arrays first */
};

/* Conditions by arithmetic: the verifier follows each way of each branch, and the machine may predict a wrong one. */

/* All ones if `value` is negative, else 0. */
static inline __attribute__((always_inline)) __u64 vitrine_if_negative(__u64 value) {
  __u64 mask = (__u64)((__s64)value >> 63);
  __asm__ volatile("" : "+r"(mask));
  return mask;
}

/* All ones if `value` is 0, else 0. */
static inline __attribute__((always_inline)) __u64 vitrine_if_zero(__u64 value) {
  __u64 sign = value | (0 - value);
  __asm__ volatile("" : "+r"(sign)); /* the compiler would take it for a comparison */
  return ~vitrine_if_negative(sign);
}

/* What a process executes, as opposed to what it did before, by numbers that user space has from
 * /proc/PID/stat and the kernel has at hand. A fork has those of its parent. */
static inline __u64 vitrine_image_of(__u64 code_start, __u64 code_end, __u64 stack_start) {
  return stack_start ^ (code_start << 21 | code_start >> 43) ^ (code_end << 42 | code_end >> 22);
}

/* A sample: this, then `sets` times a vitrine_set and its chunks. */
struct vitrine_sample {
  __u64 time_ns; /* CLOCK_MONOTONIC */
  __u64 start_time_ns;
  __u64 thread_pointer;
  __s32 tid;
  __s32 kernel_tgid;
  __u32 cpu;
  __u32 sets;
  char comm[16];
};

enum vitrine_slot_state {
  VITRINE_SLOT_READ,
  VITRINE_SLOT_UNALLOCATED, /* this thread has no block for the variable yet */
  VITRINE_SLOT_UNREADABLE,  /* a page on the way to it was not resident */
};

/* One definition in one sample, followed by `bytes` bytes of chunks. */
struct vitrine_set {
  __u32 definition;
  __u32 state;
  __u64 slot_address;
  __u64 slot; /* its first 8 bytes */
  __u32 bytes;
  __u32 reserved;
};

/* Bytes of the target, followed by `got` of them and padding to a multiple of 8. */
struct vitrine_chunk {
  __u64 address;
  __u32 wanted;
  __u32 got; /* 0 or `wanted`: an interrupt cannot wait for a page */
};

/* How often things went wrong, per CPU. */
enum vitrine_counter {
  VITRINE_SAMPLES,     /* of a wanted process */
  VITRINE_LOST,        /* no room in the ring buffer */
  VITRINE_SAMPLES_CUT, /* more to copy than one sample holds */
  VITRINE_FAULTS,      /* not resident, so not read */
  VITRINE_COUNTERS,
};
