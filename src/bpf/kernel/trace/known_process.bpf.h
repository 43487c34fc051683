// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// What is known of the process that fires, kept from one fire to the next: most fires of a CPU are of the same process, and
// each look into a table costs as much as a read of the target.
//
// It is a copy. An element of a table may be given to another process at any time, also while its labels are read
// and pages waited for. The loader counts its changes of the tables (trace_config.changes): what was copied while
// none was under way is what they hold until the next one begins.
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

/// Copies what is known of the process. Returns whether that is what it was.
static __always_inline int copy_target(struct known_process* known, const struct process* process,
                                       const struct task_struct* task, __u64 before) {
  const struct vitrine_target* target = target_of(process, task);
  if (!target || bpf_probe_read_kernel(&known->target, sizeof known->target, target)) return 0;
  set_changes(known, CHANGES_UNDER_WAY);
  if (changes_now() == before && !(before & CHANGES_UNDER_WAY)) {
    // What was inherited or assumed is looked up each time: the reader is about to look at that process.
    if (!process->flags) known->changes = before;
    return 1;
  }
  return target_of(process, task) == target && known->target.given_ns == target->given_ns;
}

/// Of the current task: fills in `process`, and s->known.
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
  known->has_target = was_known(process) && copy_target(known, process, task, changes);
  return 0;
}

/// Whether what was known of the process at the beginning of this fire is not what is known now: the reader may have
/// given it anew while its labels were read.
static __always_inline int lost_target(const struct scratch* s, const struct process* process,
                                       const struct task_struct* task) {
  if (!s->known.has_target) return was_known(process);
  if (s->known.changes == changes_now()) return 0;
  const struct vitrine_target* target = target_of(process, task);
  return !target || target->given_ns != s->known.target.given_ns;
}
