// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The threads of a process, in one pass in the kernel: which are at rest, how often each was
// switched out, and its thread pointer. Two such passes around a read prove which threads ran
// nothing meanwhile (docs/formats/custom-labels.md, "Evidence").
#include "bpf/kernel/kernel_types.bpf.h"
// The helpers' declarations want the types above.
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>

#include "bpf/kernel/task.bpf.h"
#include "bpf/wire/wire.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("iter/task")
int threads(struct bpf_iter__task* ctx) {
  struct task_struct* task = ctx->task;
  // A leader may end before its threads. A worker of the kernel (io_uring's) has the thread pointer of the
  // thread that made it: that thread's labels would show as its own.
  if (!task || is_exiting(task->flags) || is_of_the_kernel(task->flags)) return 0;

  struct vitrine_thread out = {};
  // Equal on both sides of "on no CPU", the count cannot have been raised by a run that the look at
  // on_cpu fell into.
  out.switches = switches_of(task);
  const int on_cpu = *(const volatile int*)&task->on_cpu;
  out.at_rest = on_cpu == 0 && switches_of(task) == out.switches;

  out.start_time_ns = task->start_boottime;
  out.thread_pointer = thread_pointer_of_trusted(task);
  out.kernel_tgid = task->tgid;
  // Called in the reader's own context: what it may call this thread is what we emit.
  out.pid_level = bpf_get_current_task_btf()->thread_pid->level;
  out.tid = out.pid_level == 0 ? task->pid : tid_at_level(task, out.pid_level);
  bpf_probe_read_kernel(&out.comm, sizeof out.comm, &task->comm);
  bpf_seq_write(ctx->meta->seq, &out, sizeof out);
  return 0;
}
