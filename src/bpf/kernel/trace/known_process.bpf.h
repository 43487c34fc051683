// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// What is known of the process that fires, kept from one fire to the next: most fires of a CPU are of the same process, and
// each look into a table costs as much as a read of the target.
//
// Labels are read by a copy of the description in the table. The loader replaces an element while fires are under way:
// it looks at a process again after each change of its mappings. The memory of a replaced element may hold another
// process's description at any time, also while it is copied.
//
// Order. A copy is whole if no change of the tables (trace_config.changes, which the loader raises before and after each)
// was under way when it began, and none has begun until its end. If other changes were under way, it is whole if the
// process has the same element, with the same given_ns, before and after: given_ns is of one change alone, and an element
// is written only while it is in no table. Else the program copies the new description.
//
// A whole copy stays right until the end of its fire, whatever replaces the element meanwhile. The fire's thread is in
// the kernel: it cannot execute another program, nor load or unload a library, and if another thread of its process
// executes one, this thread keeps its memory until it ends. If another thread unloads a library, labels that are read
// there are of memory that is in use for something else, before the loader has replaced the description as well as after:
// the reader drops sets of definitions that the process no longer has (EventLabels::add).
#pragma once

#include "bpf/kernel/trace/trace_state.bpf.h"

#define CHANGES_UNDER_WAY 0xffffffffULL /* the part of the word that counts these */

static __always_inline __u64 changes_now(void) {
  return *(const volatile __u64*)&trace_config.changes;
}

/// Null: nothing is known of it.
static __always_inline const struct vitrine_target* known_target(const struct scratch* s) {
  return s->known.has_target ? &s->known.target : 0;
}

/// Whether what was looked up for an earlier fire is of this process, and still right.
static __always_inline int is_known(const struct known_process* known,
                                    const struct process* process, __u64 changes) {
  const __u64 differs = (known->changes ^ changes) | (known->born ^ process->born) |
                        (known->image ^ process->image) | (known->tgid ^ process->tgid);
  return !differs;
}

/// Sets known->changes. What is read of memory before comes before what is read after.
static __always_inline void set_changes(struct known_process* known, __u64 changes) {
  const __u64 before = __sync_lock_test_and_set(&known->changes, changes);
  asm volatile("" : : "r"(before));  // without a result, it would be no barrier
}

static __always_inline __u64 given_ns_of(const struct vitrine_target* target) {
  return *(const volatile __u64*)&target->given_ns;
}

/// Copies what is known of the process. Returns whether the copy is whole.
static __always_inline int copy_target(struct known_process* known, const struct process* process,
                                       const struct task_struct* task) {
  const __u64 before = changes_now();
  const struct vitrine_target* target = target_of(process, task);
  if (!target) return 0;
  const __u64 given_ns = given_ns_of(target);
  const int is_in_table = target_of(process, task) == target;
  if (bpf_probe_read_kernel(&known->target, sizeof known->target, target)) return 0;
  set_changes(known, CHANGES_UNDER_WAY);
  if (changes_now() == before && !(before & CHANGES_UNDER_WAY)) {
    // What was inherited or assumed is looked up each time: the reader is about to look at that process.
    if (!process->flags) known->changes = before;
    return 1;
  }
  return is_in_table && target_of(process, task) == target && given_ns_of(target) == given_ns;
}

#define COPIES 4 /* attempts: each fails only if the element was replaced during it */

/// Of the current task: fills in `process`, and s->known. A process of which no whole copy was made is unknown.
VERIFIED_ALONE int know_process(struct scratch* s, struct process* process) {
  if (!s || !process) return 0;
  struct known_process* known = &s->known;
  const struct task_struct* task = bpf_get_current_task_btf();
  const __u64 changes = changes_now();
  identify(process, task);
  if (is_known(known, process, changes)) {
    have_target(process, &known->target);
    return 0;
  }
  set_changes(known, CHANGES_UNDER_WAY);  // which is_known() never finds
  find_target(process, task);
  known->born = process->born;
  known->image = process->image;
  known->tgid = process->tgid;
  known->has_target = 0;
  if (!was_known(process)) return 0;
#pragma clang loop unroll(disable)
  for (int i = 0; i < COPIES && !known->has_target; ++i)
    known->has_target = copy_target(known, process, task);
  if (!known->has_target) process->flags |= VITRINE_FIRE_UNKNOWN;
  return 0;
}
