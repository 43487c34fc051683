// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Samples of the threads that wait when a profile begins: no switch will report them before they
// come back, if they ever do. They become pending as if they had left their CPUs now, so all that
// happens to them later is the profiler's. It shares the profiler's maps.
#include "bpf/kernel/kernel_types.bpf.h"
// The helpers' declarations want the types above.
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>

extern struct task_struct* bpf_task_from_pid(__s32 pid) __ksym;
extern void bpf_task_release(struct task_struct* task) __ksym;

/// The thread being looked at, in the initial pid namespace: what reads its memory may be a function
/// that cannot be given a task.
__u32 looked_at;

/// Of that thread's memory; it may wait for a page.
static __always_inline long read_its_memory(void* into, __u32 size, __u64 address) {
  struct task_struct* task = bpf_task_from_pid(looked_at);
  if (!task) return -1;
  const long failed = bpf_copy_from_user_task(into, size, (const void*)address, task, 0);
  bpf_task_release(task);
  return failed;
}

#define READ_USER(into, size, address) read_its_memory(into, size, address)
#define TASK_ADDRESS(taking) address_of((taking)->task)
#define KERNEL_STACK(taking, into, bytes) bpf_get_task_stack((taking)->task, into, bytes, 0)

#include "bpf/kernel/profile/pending.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/// When the profile began; written by the loader.
__u64 began_ns;

/* linux/sched.h: TASK_INTERRUPTIBLE, TASK_UNINTERRUPTIBLE, __TASK_STOPPED. Not those that a tracer
 * holds, as we do what we launch. */
#define TASK_WAITS (1 | 2 | 4)

/// Whether it waits, and has done nothing else since `switches`. Once it is woken its state is
/// another before it is switched to, and the state of the next wait is set on a CPU, which it leaves
/// after the count is raised; so in this order.
static __always_inline int still_waits(const struct task_struct* task, __u64 switches) {
  if (!(*(const volatile unsigned int*)&task->__state & TASK_WAITS)) return 0;
  if (*(const volatile int*)&task->on_cpu) return 0;
  return switches_of(task) == switches;
}

static __always_inline void count_lost(void) {
  tally(VITRINE_PROFILE_SAMPLES, 1);
  tally(VITRINE_PROFILE_LOST, 1);
}

// Functions: what they have on their stacks is not there while the sample is taken.

/// Keeps the sample of `bytes` bytes in s->room.out until the thread comes back.
static __noinline int keep_waiting(struct scratch* s, const struct task_struct* task, __u64 bytes,
                                   __u64 switches) {
  __u32 tid = looked_at;
  fill_pending(s, bytes, began_ns);
  if (bpf_map_update_elem(&pending, &tid, &s->pending, BPF_NOEXIST)) {
    free_all(&s->pending);
    if (still_waits(task, switches)) count_lost();  // the table is full
  } else if (!still_waits(task, switches)) {
    // It may have come back before there was an entry, and if after that, the entry is its own
    // business already. Its blocks stay in it.
    struct vitrine_pending* entry = bpf_map_lookup_elem(&pending, &tid);
    if (entry) __sync_val_compare_and_swap(&entry->since_ns, began_ns, 0);
  }
  return 0;
}

static __noinline int is_its_process_wanted(struct taking* taking) {
  return is_wanted(&taking->process, taking->task, taking->kind);
}

SEC("iter.s/task")
int waiting(struct bpf_iter__task* ctx) {
  struct taking taking = {.kind = VITRINE_SAMPLE_OFF_CPU, .now = began_ns, .in_kernel = 1};
  struct task_struct* task = ctx->task;
  if (!task) return 0;
  taking.task = task;
  const __u64 switches = switches_of(task);
  __u32 tid = task->pid;
  if (!still_waits(task, switches) || is_exiting(task->flags) || !is_its_process_wanted(&taking))
    return 0;
  if (bpf_map_lookup_elem(&pending, &tid)) return 0;  // it went when the profiler was there already
  struct scratch* s = claim_scratch();
  if (!s) return 0;
  looked_at = tid;
  const __u64 bytes = take_sample(s, &taking, 0);
  struct vitrine_stack_sample* head = (struct vitrine_stack_sample*)s->room.out.bytes;
  head->event.cpu = task->thread_info.cpu;  // where it ran last, not where the iterator runs
  bpf_probe_read_kernel(head->event.comm, sizeof head->event.comm, task->comm);
  if (bytes)
    keep_waiting(s, task, bytes, switches);
  else if (still_waits(task, switches))
    count_lost();
  release_scratch(s);
  return 0;
}
