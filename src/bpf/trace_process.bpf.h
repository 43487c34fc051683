// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// What is known of the process that fires.
#pragma once

#include "trace_state.bpf.h"

#define ANCESTORS 4

struct process {
  const struct vitrine_target* target; /* null: not known */
  __u32 tgid;
  __u32 flags; /* enum vitrine_fire_flag */
  __u32 ours;  /* it or its ancestor was told of, whatever they have executed since */
};

/// Tells one execution of a program from another: a fork shares the open file of its parent's
/// program, and an exec opens one of its own.
static __always_inline __u64 image_of(const struct task_struct* task) {
  return (__u64)BPF_CORE_READ(task, mm, exe_file);
}

/// Of a process that was forked from a known one, what is known is that one's: its variables are
/// where its parent's were.
static __always_inline void inherit(struct process* process, const struct task_struct* task,
                                    __u64 image) {
  int same_image = 1;
  for (int i = 0; i < ANCESTORS; ++i) {
    task = BPF_CORE_READ(task, real_parent);
    if (!task) return;
    const __u32 tgid = BPF_CORE_READ(task, tgid);
    const struct vitrine_target* target = bpf_map_lookup_elem(&targets, &tgid);
    if (image_of(task) != image) same_image = 0;
    if (!target) continue;
    process->ours = 1;
    if (same_image && (target->program_mark == 0 || target->program_mark == image)) {
      process->target = target;
      process->flags = VITRINE_FIRE_INHERITED;
    }
    return;
  }
}

/// `task`: the current one.
static __always_inline void find_process(struct process* process, const struct task_struct* task) {
  process->tgid = task->tgid;
  process->flags = 0;
  process->target = 0;
  process->ours = 0;
  struct vitrine_target* target = bpf_map_lookup_elem(&targets, &process->tgid);
  const __u64 image = task->mm ? (__u64)task->mm->exe_file : 0;
  if (target) process->ours = 1;
  if (target && (target->program_mark == 0 || target->program_mark == image)) {
    target->program_mark = image;
    process->target = target;
    return;
  }
  process->flags = VITRINE_FIRE_UNKNOWN;
  if (!target) inherit(process, task, image);
}

/// Whether the reader has yet to be told that this process is not known.
static __always_inline int announce(const struct process* process, __u64 start_ns) {
  if (process->flags == 0) return 0;
  const __u64 mark = start_ns ^ ((__u64)process->flags << 62);
  const __u64* known = bpf_map_lookup_elem(&announced, &process->tgid);
  if (known && *known == mark) return 0;
  bpf_map_update_elem(&announced, &process->tgid, &mark, BPF_ANY);
  return 1;
}
