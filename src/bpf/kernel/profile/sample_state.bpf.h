// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The settings of a program that samples threads, its room to work in, and the facts that a sample is taken by.
// Included after kernel_types.bpf.h and libbpf's helpers.
#pragma once

#include "bpf/kernel/task.bpf.h"
#include "bpf/wire/profile.h"

/// Behind the labels: the kernel's stack, the registers, the copy of the stack, and a page in which
/// a last piece of any size can be written.
#define LABEL_BUFFER_TAIL (VITRINE_STACK_COPY + 2 * 4096)
#ifdef UNWINDS
#define NOTES_LABELS
#endif

/// Written by the loader, before: the verifier leaves out what does not apply.
const volatile struct vitrine_profile_config profile_config;

#define MAY_INHERIT (profile_config.every_process || profile_config.follow || profile_config.wakers)
/// Ticks come some hundred times a second, threads leave their CPUs some ten thousand times.
#define RUNS_SELDOM (!profile_config.off_cpu)
#include "bpf/kernel/event.bpf.h"

_Static_assert(VITRINE_PROFILE_COUNTERS <= COUNTERS, "room for every counter");

#define SAMPLE_BYTES (LABEL_BUFFER_BYTES + VITRINE_STACK_COPY + 4096) /* most of one */

_Static_assert(SAMPLE_BYTES <= VITRINE_BLOCKS * VITRINE_BLOCK_BYTES, "blocks for every sample");

/// Written by the loader, also while we run.
struct vitrine_profile_state profile_state;

struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 256);
  __type(key, struct vitrine_executable);
  __type(value, struct vitrine_go_file);
} go_files SEC(".maps");

/// Processes that the reader does not want, by number (docs/essays/rows.md). Of one that has dropped out, the next
/// sample is sent.
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct vitrine_refused_process);
} refused_processes SEC(".maps");

#ifdef UNWINDS
#include "bpf/kernel/profile/kernel_stack_state.bpf.h"
#include "bpf/kernel/profile/known_thread_state.bpf.h"
#include "bpf/kernel/profile/known_wait_state.bpf.h"
#include "bpf/kernel/profile/row_state.bpf.h"
#include "bpf/kernel/profile/unwind_state.bpf.h"
#endif

/// What a thread of Go has of the stack that it has left for another.
struct left_stack {
  __u64 start; /* 0: none was left */
  __u64 end;
};

/// Room for one sample. What each sample uses comes first, in few pages: between two of them the caches and the TLB are
/// another program's, and a page costs as much as a hundred instructions.
struct scratch {
  __u32 claimed, index;
  __u32 gaps; /* of the copy made last */
  struct left_stack left;
#ifdef UNWINDS
  struct thread_facts facts;
  __u64
      registers_at; /* where the sample has some of its registers: fill_registers(); 0: it has all, or none */
  struct row_state row;
  struct unwinding unwinding;
  /* Second parts of the keys of samples that have a model, each at the place of its first: most are met once, and need
   * no row. */
  __u64 spans_met[SPANS_MET];
  struct known_model models[KNOWN_MODELS]; /* each at the place of its key */
  struct known_rule near_rules[NEAR_RULES];
#endif
  struct label_room room;
#ifdef UNWINDS
  struct known_thread threads[KNOWN_THREADS];
  struct known_rule known_rules[KNOWN_RULES];
  struct kernel_stack_state kernel;
  struct known_wait wait;
#endif
  struct vitrine_pending pending;
};

/// Ticks come in interrupts, and switches happen with interrupts off: one is enough.
#define SCRATCHES_PER_CPU 1
#include "bpf/kernel/scratch.bpf.h"

/// As count(), but in the program once.
VERIFIED_ALONE int tally(__u32 counter, __u64 more) {
  count(counter, more);
  return 0;
}

/// Where in a sample anything can be written that has no more than a page. Null: beyond its end.
static __always_inline void* sample_at(struct label_buffer* out, __u64 offset) {
  asm volatile("" : "+r"(offset));
  return offset > SAMPLE_BYTES ? 0 : out->bytes + offset;
}

/// The same of what comes first behind the labels, which end before LABEL_BUFFER_BYTES: no check is needed.
static __always_inline void* behind_labels(struct label_buffer* out, __u64 offset) {
  return out->bytes + bounded(offset, 2 * LABEL_BUFFER_BYTES);
}

#define KERNEL_STACK_BYTES (127 * 8) /* kernel.perf_event_max_stack as shipped */

/// How a thread's kernel stack is taken. A program that samples others may define another way before
/// it includes this.
#ifndef KERNEL_STACK
#define KERNEL_STACK(taking, into, bytes) \
  bpf_get_stack((void*)(taking)->ctx, into, bytes, (taking)->kernel_skips & 0xff)
#endif

/// The address of its task as a number, which a function that is verified alone can be given.
#ifndef TASK_ADDRESS
#define TASK_ADDRESS(taking) bpf_get_current_task()
#endif

struct taking {
  const __u64* ctx;
  struct task_struct* task;
  __u64 now;
  __u32 kind;         /* enum vitrine_sample_kind */
  __u32 flags;        /* enum vitrine_sample_flag */
  __u32 in_kernel;    /* it has a stack there */
  __u32 kernel_skips; /* its frames of this program */
  struct process process;
};

/// Once the label sets are in the sample: what is missing.
static __always_inline void count_trouble(struct scratch* s) {
  if (s->room.out.cut)
    ((struct vitrine_stack_sample*)s->room.out.bytes)->event.flags |= VITRINE_FIRE_CUT;
  if (s->room.out.cut) tally(VITRINE_PROFILE_CUT, s->room.out.cut);
  if (s->room.out.faults) tally(VITRINE_PROFILE_FAULTS, s->room.out.faults);
}

/// The label sets of the process's thread. Returns how many had room.
VERIFIED_ALONE __u32 append_sets_of(struct scratch* s, const struct process* process, __u64 task) {
  const struct vitrine_target* target =
      process ? target_of(process, (const struct task_struct*)task) : 0;
  if (!s || !process) return 0;
  if (!target) {
    struct vitrine_stack_sample* head = (struct vitrine_stack_sample*)s->room.out.bytes;
    if (was_known(process)) head->event.flags |= VITRINE_FIRE_UNKNOWN;
    return 0;
  }
#ifdef UNWINDS
  s->row.address_mask = target->address_mask;
#endif
  const __u32 sets = append_sets(&s->room, target, process->execution);
  count_trouble(s);
  return sets;
}
