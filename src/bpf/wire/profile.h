/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the profiling program in the kernel and its loader exchange (see event.h). */
#pragma once

#include "bpf/wire/event.h"
#include "bpf/wire/rows.h"
#include "bpf/wire/unwind.h"

/* limits::stack_copy: most of one copy of a stack. */
#define VITRINE_STACK_COPY 65536

/* Of a function of the kernel, with its module and the end: KSYM_SYMBOL_LEN is less. */
#define VITRINE_KERNEL_NAME 640

/* A sample that waits for its thread to come back is in blocks of so many bytes. */
#define VITRINE_BLOCK_BYTES 2048
#define VITRINE_BLOCKS 48 /* of one sample: labels, a whole copy of the stack, and the rest */

/* ---- What is asked for ---- */

enum vitrine_unwinds {
  VITRINE_UNWINDS_NOT, /* stacks are copied */
  VITRINE_UNWINDS_ELSE_COPIES,
  VITRINE_UNWINDS_AND_COPIES, /* each sample, to compare */
};

/* What a filter of samples depends on, beside the process and its labels. */
enum vitrine_filter {
  VITRINE_FILTER_BY_LABELS = 1, /* there is a filter */
  VITRINE_FILTER_BY_THREAD = 2, /* its number and its name */
  VITRINE_FILTER_BY_CPU = 4,
  VITRINE_FILTER_BY_SPAN = 8, /* trace and span */
};

/* Known before the programs are loaded, and the same from then on. */
struct vitrine_profile_config {
  __u64 min_block_ns;
  __u32 stack_bytes; /* most of one copy, at most VITRINE_STACK_COPY */
  __u32 kernel_stacks;
  __u32 every_process;
  __u32 follow;      /* processes that are known by their ancestors only, too */
  __u32 preempted;   /* off-CPU: threads that could have run, too */
  __u32 wakers;      /* off-CPU: what wakes threads is sampled, too */
  __u32 unwinds;     /* enum vitrine_unwinds */
  __u32 rows;        /* of one generation, a power of two; 0: samples are not added up */
  __u32 row_bits;    /* of the length of a cell's time, in ns */
  __u32 filter;      /* enum vitrine_filter; 0: there is none */
  __u32 spans;       /* samples that have a model are sent as vitrine_span_sample */
  __u32 span_places; /* of each log of those (spans.h), a power of two; 0: there are no logs */
  __u32 off_cpu;     /* threads that leave their CPUs are sampled, too */
  __u32 selects;     /* vitrine_profile_state.selection is used */
};

/* Of a process that was given: what each sample of it needs of its vitrine_target. */
struct vitrine_given_process {
  __u64 check; /* vitrine_check_of_given */
  __u64 given_ns;
  __u64 image;
  __u32 tgid;
  __u32 is_bystander;
};

/* It may be read while it is written: then it does not fit. What is all zero does not, either. */
static inline __attribute__((always_inline)) __u64 vitrine_check_of_given(
    const struct vitrine_given_process* given) {
  const __u64 process = (__u64)given->tgid << 32 | given->is_bystander;
  return ~(given->given_ns ^ (given->image << 1 | given->image >> 63) ^ process);
}

#define VITRINE_PLACES 8 /* of processes, by number: a power of two */

/* Changed while the programs run. */
struct vitrine_profile_state {
  __u64 end_ns;     /* no time from then on is sampled (CLOCK_MONOTONIC); 0: there is no end */
  __u32 generation; /* of rows: those of one are the first half, those of the next the second */
  __u32 selection;  /* raised to ask for the samples of every process again; 0: none is refused */
  __u32 go_files;   /* something is known of Go programs: struct vitrine_go_file */
  __u32 reserved;
  /* While the generation changes with an interval: where that ended (vitrine_row_boundary). A sample of before, such as
   * of a thread that has been off its CPU since, is of the generation before. Otherwise 0. */
  __u64 boundary;
  /* Of the process that was given last of those with this place, without a look into a table: itself, and in one word
   * its tgid << 32 | the id of its space. */
  struct vitrine_given_process given[VITRINE_PLACES];
  __u64 spaces[VITRINE_PLACES];
};

/* A process that the reader has refused, while it executes what it executed then: by its number. Its samples
 * are counted, and that is all. */
struct vitrine_refused_process {
  __u64 start_ns;  /* vitrine_event_header.process_start_ns */
  __u64 image;     /* of the same */
  __u32 exec_id;   /* vitrine_stack_sample.exec_id */
  __u32 selection; /* vitrine_profile_state.selection then */
};

/* Whether it is the process that `now` describes. */
static inline __attribute__((always_inline)) int vitrine_is_refused(
    const struct vitrine_refused_process* refused, const struct vitrine_refused_process* now) {
  return refused->selection == now->selection && refused->start_ns == now->start_ns &&
         refused->image == now->image && refused->exec_id == now->exec_id;
}

/* A Go program, by its file. A thread has a goroutine's stack, and its own (g0's), on which the runtime
 * runs C, the vdso, and parts of itself. The one that it has left for the other is where pointers in the
 * runtime's structures have it: these are offsets (unwind/go_code.hpp). */
struct vitrine_go_file {
  __s32 g_of_thread;
  __u32 m_of_g;
  __u32 current_of_m;
  __u32 vdso_of_m;
  __u32 stack_of_g;
};

/* ---- What it reports: records of the ring buffer ---- */

enum vitrine_sample_kind {
  VITRINE_SAMPLE_ON_CPU,
  VITRINE_SAMPLE_OFF_CPU, /* the time is that of going off */
  /* Of the thread that was on the CPU which ended the wait of the sample that this one is behind. It may have been
   * interrupted, and an interrupt have ended the wait: its kernel stack shows it. */
  VITRINE_SAMPLE_WAKER,
  VITRINE_SAMPLE_SPAN, /* vitrine_span_sample */
};

/* vitrine_event_header.flags, beside enum vitrine_fire_flag. */
enum vitrine_sample_flag {
  VITRINE_SAMPLE_STACK_CUT = 32, /* there was more of the stack, or it was not resident */
  VITRINE_SAMPLE_UNFINISHED =
      64, /* off-CPU: still so when the profile ended; `off_ns` until then */
  VITRINE_SAMPLE_PREEMPTED = 128, /* off-CPU: it could have run */
  VITRINE_SAMPLE_ADDED = 256,     /* of VITRINE_UNWINDS_AND_COPIES: to `row`, too */
};

/* Followed by `header.sets` vitrine_fire_set with their bytes, `kernel_bytes` of addresses (leaf
 * first), `register_bytes` (struct pt_regs; aarch64: user_pt_regs), `frame_bytes` of frames (leaf
 * first; VITRINE_UNWIND_RETURNS) if `unwound` is VITRINE_UNWOUND_WHOLE, `stack_bytes` of memory from
 * `stack_start` up, and `left_bytes` of a Go thread's other stack from `left_start` up; each padded to
 * multiples of 8. Within a copy, pages that were not resident are gaps: what is there means nothing. Behind a
 * sample off the CPU there may be that of its waker. */
struct vitrine_stack_sample {
  struct vitrine_event_header event; /* of enum vitrine_sample_kind */
  __u64 off_ns;                      /* how long it was off its CPU */
  __u64 stack_start;                 /* the stack pointer, rounded down to a multiple of 8 */
  __u64 left_start;                  /* the stack pointer of what has left this stack, or below */
  __u64 unwound_to;                  /* the code address at which unwinding in the kernel ended */
  __u64 subject;        /* a hash of all that a filter depends on; 0: that is not known for sure */
  __u32 kernel_bytes;   /* 0: it was in user code */
  __u32 register_bytes; /* 0: it has no user code */
  __u32 frame_bytes;
  __u32 stack_bytes;
  __u32 left_bytes; /* 0: the thread has left no stack */
  __u32 unwound;    /* enum vitrine_unwound */
  __u32 space;      /* the vitrine_unwind_space.id that it was unwound by, if it was */
  __u32 row;        /* it is the first of this row: its number, plus one; 0: it is not */
  __u32 generation; /* of rows, when it was sent */
  __u32 stack_gaps; /* bit n: the page n after that of `stack_start` */
  __u32 left_gaps;  /* bit n: the page n after that of `left_start` */
  __u32 frames;     /* that were found: more than `frame_bytes` has, if it is a ring */
  __u32 exec_id;    /* raised by each exec of the process */
  __u32 model;      /* as `row`, of the row of its model: it is the model, if the row is new */
  __u32 reserved;
};

/* A sample on the CPU that differs from one sent before, its model, by time, trace and span alone. Shorter than a
 * vitrine_event_header, and `kind` is where that has it. */
struct vitrine_span_sample {
  __u64 time_ns;     /* CLOCK_MONOTONIC */
  __u64 trace_id[2]; /* bytes */
  __u32 kind;        /* VITRINE_SAMPLE_SPAN */
  __u32 generation;  /* of rows, when it was sent */
  __u64 span_id;     /* bytes */
  __u32 model;       /* number of that one's row, plus one */
  __u32 row;         /* as of vitrine_stack_sample */
};

/* ---- What is kept in the kernel meanwhile ---- */

/* Blocks that no sample has been in yet: by number, up to `end`. And of all blocks. */
struct vitrine_unused_blocks {
  __u32 first;
  __u32 end;
  __u32 memos; /* that have one: vitrine_pending.memo */
};

/* A thread that is off its CPU: where its sample is. The same of what woke a thread. */
struct vitrine_pending {
  __u64 since_ns; /* 0: it is back */
  __u32 bytes;    /* of its sample, whose first blocks these are; 0: it did not fit */
  __u32 blocks;   /* of `block` */
  __u16 sleeps;   /* it gave its CPU up, so something has to wake it */
  __u16 has_memo; /* what the sample follows from is in the block of `memo` */
  __u32 memo;     /* the number of a block, plus one; 0: there is none */
  __u32 block[VITRINE_BLOCKS];
  struct vitrine_row_key row; /* first 0: it is not added up */
};

/* How often things happened, per CPU. */
enum vitrine_profile_counter {
  VITRINE_PROFILE_SAMPLES,      /* of wanted threads, long enough */
  VITRINE_PROFILE_LOST,         /* of those: no room in a buffer */
  VITRINE_PROFILE_CUT,          /* pieces of labels that had no room in their sample */
  VITRINE_PROFILE_FAULTS,       /* pieces of labels that were not resident */
  VITRINE_PROFILE_SHORT_BLOCKS, /* off-CPU stretches shorter than min_block_ns */
  VITRINE_PROFILE_WAITING_FULL, /* no room for a thread that is off its CPU */
  VITRINE_PROFILE_UNWANTED,     /* of the samples: of a process or subject that is refused */
  VITRINE_PROFILE_NO_WAKER,     /* waits whose wakers are not known: no room for their samples */
  VITRINE_PROFILE_KNOWN_KERNEL, /* stacks of the kernel that were known, and not unwound */
  VITRINE_PROFILE_WRONG_KERNEL, /* of those, where all are unwound to compare: they were others */
  VITRINE_PROFILE_LIKE_BEFORE, /* waits like their threads' last ones: they were not sampled anew */
  VITRINE_PROFILE_NOT_LIKE,    /* of those, where all are sampled to compare: they were others */
  VITRINE_PROFILE_KNOWN_LABELS, /* label sets of a thread that were those of its last sample */
  VITRINE_PROFILE_OTHER_LABELS, /* of those, where all are read to compare: they were others */
  VITRINE_PROFILE_COUNTERS,
};
