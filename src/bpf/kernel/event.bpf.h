// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The common part of records, and how they are sent.
#pragma once

#include "event_labels.bpf.h"
#include "event_state.bpf.h"

/// `task`: the current one.
static __always_inline void fill_header(struct vitrine_event_header* moment,
                                        const struct task_struct* task,
                                        const struct process* process, __u64 now) {
  moment->time_ns = now;
  moment->process_start_ns = task->group_leader->start_boottime;
  moment->image = process->image;
  moment->kind = 0;
  moment->flags = process->flags;
  moment->kernel_tgid = process->tgid;
  moment->cpu = bpf_get_smp_processor_id();
  moment->epoch = config.epoch;
  moment->sets = 0;
  bpf_get_current_comm(moment->comm, sizeof moment->comm);
}

static __always_inline void fill_ids(struct vitrine_event_header* moment,
                                     const struct task_struct* task) {
  moment->pid = task->tgid;
  moment->tid = task->pid;
  if (!config.pid_level) return;
  moment->tid = tid_at_level(task, config.pid_level);
  moment->pid = tid_at_level(task->group_leader, config.pid_level);
}

/// Sends the first `used` bytes of the record, at most `most`, without a wake-up unless the buffer
/// fills, or something cannot wait. Returns whether it had room.
static __always_inline int submit(const struct label_buffer* record, __u64 used, __u64 most,
                                  int at_once) {
  asm volatile("" : "+r"(used));
  if (used > most) return 0;
  __u64 flags = BPF_RB_NO_WAKEUP;
  if (at_once ||
      (reader_waits && bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) >= config.wake_bytes)) {
    reader_waits = 0;
    flags = BPF_RB_FORCE_WAKEUP;
  }
  return bpf_ringbuf_output(&events, (void*)record->bytes, used, flags) == 0;
}
