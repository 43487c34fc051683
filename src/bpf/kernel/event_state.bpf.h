// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// What every program with event headers keeps: its settings, the tables of processes and of label
// sets, the room to gather labels in, and what is known of the current process. Included after
// kernel_types.bpf.h, libbpf's helpers, and a READ_USER of the program's own if it has one.
#pragma once

#include <stddef.h>

#include "bpf/kernel/read_labels.bpf.h"
#include "bpf/wire/event.h"

#ifdef NOTES_LABELS
#include "bpf/kernel/label_words.bpf.h"
#endif

#define COUNTERS 16 /* of any program */

/// Written by the loader, also while we run.
struct vitrine_event_config config;
__u32 reader_waits;

/// 0, which the verifier does not know.
__u64 no_flags;

/// bpf_loop() for what is rare. Where the verifier knows the flags, it puts a loop in place of the call, which saves some
/// nanoseconds a round, and takes it a tenth of a millisecond.
#define loop_rarely(count, callback, context) bpf_loop(count, callback, context, no_flags)

/// The block of vitrine's writer's set in force. Its thread record is in it too, and as immutable: it
/// needs no look.
struct own_block {
  __u64 id; /* 0: there is none */
  __u64 begin, end;
};

/// What the last event that used this room knew of a set of vitrine's writer: the next is most often
/// under the same, and spared the hashing and the looking up.
struct last_set {
  __u64 set, serial, execution;
  __u64 id;         /* of these; 0: there is none yet */
  __u32 sent_epoch; /* in which a record has carried it; 0: not known to */
  __u32 reserved;
};

/// Where the labels of one event are gathered, and with them its record. Part of a program's scratch.
struct label_room {
  __u64 thread_pointer;
  __u64 execution;
  __u32 new_sets; /* of new_set */
  __u32 whole;    /* sets are not left out, though records have carried them */
  __u32 epoch;    /* of the record, as in its header */
  __u64 new_set[VITRINE_DEFINITIONS];
  struct own_block own;
  struct last_set last; /* outlives the event */
  struct slot_before before;
  /* Of the definition that is looked at. Here, to spare the stack. */
  struct slot_place place;
  struct serial_head head;
  __u64 set_at, fresh_at, kept_at; /* where the pieces of its set begin */
  __u64 id;                        /* of what is kept of it */
  __u64 trouble;                   /* out.cut + out.faults before */
#ifdef NOTES_LABELS
  struct label_words words; /* of the event */
#endif
  struct label_buffer out;
};

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __uint(max_entries, 65536);
  __type(key, __u32);  // tgid, in the initial pid namespace
  __type(value, struct vitrine_target);
} targets SEC(".maps");

/// What is assumed of processes that nothing is known of.
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 1024);
  __type(key, struct vitrine_executable);
  __type(value, struct vitrine_target);
} assumed SEC(".maps");

/// Processes that the reader was woken for, and what they executed.
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 4096);
  __type(key, __u32);
  __type(value, __u64);
} announced SEC(".maps");

#define SENT_SETS 65536 /* a power of two */

/// Label sets that records have carried, each at the place of its id: the id, exclusive-or'ed with the epoch it was
/// in << 32. One word, so it is there as a whole or not at all, with no lock. What takes the place of another makes
/// that one be sent again.
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, SENT_SETS);
  __type(key, __u32);
  __type(value, __u64);
} sent SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, COUNTERS);
  __type(key, __u32);
  __type(value, __u64);
} counters SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 16 << 20);
} events SEC(".maps");

/// Per CPU, but a fire may be preempted by another there: hence atomic, which costs little where
/// no other CPU writes.
static __always_inline void count(__u32 counter, __u64 more) {
  __u64* value = more ? bpf_map_lookup_elem(&counters, &counter) : 0;
  if (value) __sync_fetch_and_add(value, more);
}

// What is known of the current process.

#define ANCESTORS 4

// Where the verifier trusts a task, it looks up each pointer that is loaded from it by name in all types of the kernel, up
// to four times: 1.3 ms for the two of identify(). So a program loads each once, there, or reads it as memory of the kernel
// (BPF_CORE_READ), which takes some nanoseconds more. A program that runs seldom defines this before it includes this.
#ifndef RUNS_SELDOM
#define RUNS_SELDOM 0
#endif

struct process {
  __u64 born;       /* CLOCK_BOOTTIME */
  __u64 start_code; /* 0: no memory, or the kernel is loading its program */
  __u64 start_stack;
  __u64 image;     /* vitrine_image_of; 0: as start_code */
  __u64 execution; /* of this process, with this program, and of no other */
  __u64 given_ns; /* when what is known of it was given; 0: that is another process's, or nothing */
  __u32 tgid;
  __u32 exec_id; /* raised by each exec; its threads have the same */
  /* Of the process that what is known is of, itself or its ancestor; 0: nothing, or what is assumed. */
  __u32 given_tgid;
  __u16 flags;   /* enum vitrine_fire_flag */
  __u8 selected; /* it or its ancestor was configured, whatever they have executed since */
  __u8 assumed;  /* what is known is assumed, of others that run the same file */
};

static __always_inline __u64 image_of(const struct task_struct* task) {
  return vitrine_image_of(BPF_CORE_READ(task, mm, start_code), BPF_CORE_READ(task, mm, end_code),
                          BPF_CORE_READ(task, mm, start_stack));
}

/// The same of the current task, and of what it is made.
static __always_inline void set_image(struct process* process, const struct task_struct* task) {
  const struct mm_struct* mm = RUNS_SELDOM ? BPF_CORE_READ(task, mm) : task->mm;
  process->image = process->start_code = process->start_stack = 0;
  if (!mm) return;
  process->start_code = RUNS_SELDOM ? BPF_CORE_READ(mm, start_code) : mm->start_code;
  process->start_stack = RUNS_SELDOM ? BPF_CORE_READ(mm, start_stack) : mm->start_stack;
  // While it is being loaded, the stack is there already: what that makes is no program's image.
  if (process->start_code)
    process->image = vitrine_image_of(process->start_code,
                                      RUNS_SELDOM ? BPF_CORE_READ(mm, end_code) : mm->end_code,
                                      process->start_stack);
}

/// When its process began. Most processes have one thread.
static __always_inline __u64 birth_of(const struct task_struct* task) {
  if (!RUNS_SELDOM) return task->group_leader->start_boottime;
  return task->pid == task->tgid ? task->start_boottime
                                 : BPF_CORE_READ(task, group_leader, start_boottime);
}

/// What was given of the process of a task; null: nothing. One that was born later is another,
/// which got the number of that one.
static __always_inline const struct vitrine_target* given_target(__u32 tgid, __u64 born) {
  const struct vitrine_target* target = bpf_map_lookup_elem(&targets, &tgid);
  return target && born <= target->given_ns ? target : 0;
}

static __always_inline int is_of(const struct vitrine_target* target, __u64 image) {
  return target->image == 0 || target->image == image;
}

/// What a function that is verified alone can be given of a task. The verifier takes a pointer that has been copied for a number.
static __noinline __u64 address_of(const struct task_struct* task) {
  __u64 address = 0;
  bpf_probe_read_kernel(&address, sizeof address, &task);
  return address;
}

/// The way from a task up to its ancestors.
struct descent {
  __u64 task;    /* its address */
  __u64 differs; /* an ancestor that was passed executes something else */
};

/// Goes on to the parent. Returns whether something is known of it, or there is none.
VERIFIED_ALONE int inherit_from_parent(struct process* process, struct descent* descent) {
  if (!process || !descent) return 1;
  const struct task_struct* task = (const struct task_struct*)descent->task;
  const __u64 born = BPF_CORE_READ(task, group_leader, start_boottime);
  task = BPF_CORE_READ(task, real_parent);
  if (!task) return 1;
  const __u32 tgid = BPF_CORE_READ(task, tgid);
  const struct vitrine_target* target =
      given_target(tgid, BPF_CORE_READ(task, group_leader, start_boottime));
  descent->task = (__u64)task;
  descent->differs |= image_of(task) ^ process->image;
  if (!target) return 0;
  process->selected = !target->is_bystander;
  if (!descent->differs && is_of(target, process->image)) {
    process->given_tgid = tgid;
    // Libraries that its parent has loaded since are not the child's.
    process->flags = target->given_ns <= born ? VITRINE_FIRE_INHERITED : VITRINE_FIRE_ASSUMED;
  }
  return 1;
}

/// Of a process that was forked from a known one, what was known then is that one's: its variables
/// are where its parent's were.
static __always_inline void inherit(struct process* process, __u64 task) {
  struct descent descent = {.task = task};
#pragma clang loop unroll(disable)
  for (int i = 0; i < ANCESTORS; ++i)
    if (inherit_from_parent(process, &descent)) break;
}

static __always_inline struct vitrine_executable executable_of(const struct task_struct* task) {
  struct vitrine_executable executable = {};
  executable.inode = BPF_CORE_READ(task, mm, exe_file, f_inode, i_ino);
  executable.device = BPF_CORE_READ(task, mm, exe_file, f_inode, i_sb, s_dev);
  return executable;
}

/// Of a process that has just begun: as others that run the same file. That is sure for variables
/// of the executable only, so the reader compares it with what is then found in the process.
static __always_inline void assume(struct process* process, const struct task_struct* task) {
  if (!process->image) return;
  const struct vitrine_executable executable = executable_of(task);
  if (!bpf_map_lookup_elem(&assumed, &executable)) return;
  process->assumed = 1;
  process->flags = VITRINE_FIRE_ASSUMED;
}

/// Which process it is, and what it executes. `task`: the current one.
static __always_inline void identify(struct process* process, const struct task_struct* task) {
  process->tgid = task->tgid;
  process->flags = 0;
  process->given_tgid = process->assumed = 0;
  process->given_ns = 0;
  process->selected = 0;
  process->born = birth_of(task);
  set_image(process, task);
  process->exec_id = task->self_exec_id;
  process->execution = vitrine_execution_of(process->born, process->tgid, process->exec_id);
}

/// What was given of it, of that image.
static __always_inline void have_target(struct process* process,
                                        const struct vitrine_target* target) {
  process->selected = !target->is_bystander;
  process->given_tgid = process->tgid;
  process->given_ns = target->given_ns;
}

/// Whether processes that nothing was given of are of any interest. A program may define it before it includes this.
#ifndef MAY_INHERIT
#define MAY_INHERIT 1
#endif

/// After find_target(), of a process that nothing was given of: `task` is its task's address.
VERIFIED_ALONE int find_like(struct process* process, __u64 task, __u32 inherits) {
  if (!process) return 0;
  if (MAY_INHERIT && inherits) inherit(process, task);
  if (!process->given_tgid) assume(process, (const struct task_struct*)task);
  return 0;
}

/// Of a process that is identified: what is known of it.
static __always_inline void find_target(struct process* process, const struct task_struct* task) {
  const struct vitrine_target* target = given_target(process->tgid, process->born);
  if (target && is_of(target, process->image)) {
    have_target(process, target);
    return;
  }
  if (target) process->selected = !target->is_bystander;
  process->flags = VITRINE_FIRE_UNKNOWN;
  find_like(process, address_of(task), !target);
}

/// Whether find_target() has found something. target_of() may find it gone.
static __always_inline int was_known(const struct process* process) {
  return process->given_tgid || process->assumed;
}

/// What is known of the process of a task, by find_target(); null: nothing. It is looked up once more: a pointer that
/// is kept would have the verifier go through all that follows for each table that it may be of. A function: what it
/// has on its stack is not there while labels are read.
static __noinline const struct vitrine_target* target_of(const struct process* process,
                                                         const struct task_struct* task) {
  const __u32 tgid = process->given_tgid;
  if (tgid) {
    const struct vitrine_target* target = bpf_map_lookup_elem(&targets, &tgid);
    return target && is_of(target, process->image) ? target : 0;
  }
  if (!process->assumed) return 0;
  const struct vitrine_executable executable = executable_of(task);
  return bpf_map_lookup_elem(&assumed, &executable);
}

/// Of the current task. What it finds are numbers in memory, so the verifier goes through what follows once.
VERIFIED_ALONE int find_process(struct process* process) {
  if (!process) return 0;
  const struct task_struct* task = bpf_get_current_task_btf();
  identify(process, task);
  find_target(process, task);
  return process->selected;
}

/// Whether the reader does not know yet that this process is unknown.
static __always_inline int announce(const struct process* process) {
  const __u64 unknown =
      process->flags & (VITRINE_FIRE_UNKNOWN | VITRINE_FIRE_INHERITED | VITRINE_FIRE_ASSUMED);
  if (!unknown) return 0;
  const __u64 mark = process->execution ^ unknown << 52;
  const __u64* known = bpf_map_lookup_elem(&announced, &process->tgid);
  if (known && *known == mark) return 0;
  bpf_map_update_elem(&announced, &process->tgid, &mark, BPF_ANY);
  return 1;
}
