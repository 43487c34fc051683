// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Samples of what runs when the CPU clock ticks, and of what leaves its CPU, with how long it was
// away.
#include "bpf/kernel/kernel_types.bpf.h"
// The helpers' declarations want the types above.
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>

#define UNWINDS
#include "bpf/kernel/profile/pending.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/// How many frames of the kernel's stack at a switch are this program's and what called it, and not
/// yet the scheduler's. Found by the first switch.
__u32 frames_of_tracing;

/// The scheduler's code, by find_scheduler(); 0: where it is is not known.
__u64 scheduler_start, scheduler_end;

#define FRAMES_OF_TRACING 12 /* at most */

#define TASK_DEAD 0x80 /* linux/sched.h: it never runs again */

/// `s`: room for what is looked at, which a sample is not yet in. Inline: a function would be a frame more.
static __always_inline __u32 count_frames_of_tracing(struct scratch* s, const __u64* ctx) {
  __u64* frames = (__u64*)s->room.out.bytes;
  for (__u32 i = 0; i < FRAMES_OF_TRACING; ++i) frames[i] = 0;
  bpf_get_stack((void*)ctx, frames, FRAMES_OF_TRACING * sizeof *frames, 0);
  for (__u32 i = 0; i < FRAMES_OF_TRACING; ++i)
    if (frames[i] >= scheduler_start && frames[i] < scheduler_end) return i;
  return 0;
}

#define FIRED_PLACES 16 /* a power of two */

/// Ticks that found a wanted thread, where programs have them at hand: of each CPU at one of these places, which CPUs
/// beyond share.
struct {
  __u64 samples;
  __u64 apart[7]; /* no other CPU writes to the same cache line */
} fired[FIRED_PLACES];

static __always_inline void count_fired(void) {
  __sync_fetch_and_add(&fired[bounded(bpf_get_smp_processor_id(), FIRED_PLACES)].samples, 1);
}

SEC("perf_event")
int tick(const __u64* ctx) {
  struct taking taking = {.ctx = ctx, .kind = VITRINE_SAMPLE_ON_CPU};
  taking.now = bpf_ktime_get_ns();
  taking.task = bpf_get_current_task_btf();
  if (is_over(taking.now) || !is_current_wanted(&taking.process, taking.kind)) return 0;
  taking.in_kernel = is_user_mode(ctx) ^ 1;
  count_fired();
  struct scratch* s = claim_scratch();
  const __u64 bytes = s ? take_sample(s, &taking, 1) : 0;
  if (!bytes)
    tally(is_unwanted(s) ? VITRINE_PROFILE_UNWANTED : VITRINE_PROFILE_LOST, 1);
  else if (is_added(s, taking.now, 0, 1))
    ;
  else if (send_span_or_sample(s, &taking.process, bytes, taking.now))
    note_all_sent(&s->room);
  else
    tally(VITRINE_PROFILE_LOST, 1);
  if (s) release_scratch(s);
  return 0;
}

/// The current thread leaves its CPU.
static __always_inline void leave(const __u64* ctx, __u64 now, int could_run) {
  struct taking taking = {.ctx = ctx, .kind = VITRINE_SAMPLE_OFF_CPU, .now = now, .in_kernel = 1};
  taking.task = bpf_get_current_task_btf();
  if (is_exiting(taking.task->flags) || !is_current_wanted(&taking.process, taking.kind)) return;
  if (could_run) taking.flags = VITRINE_SAMPLE_PREEMPTED;
  struct scratch* s = claim_scratch();
  if (s && !frames_of_tracing) frames_of_tracing = count_frames_of_tracing(s, ctx);
  taking.kernel_skips = frames_of_tracing;
  const __u32 tid = taking.task->pid;
  if (s && is_kept_again(s, &taking, tid, now)) {
    release_scratch(s);
    return;
  }
  const __u64 bytes = s ? take_sample(s, &taking, 0) : 0;
  if (bytes) {
    keep_pending(s, tid, bytes, now);
  } else {
    tally(VITRINE_PROFILE_SAMPLES, 1);
    tally(is_unwanted(s) ? VITRINE_PROFILE_UNWANTED : VITRINE_PROFILE_LOST, 1);
  }
  if (s) release_scratch(s);
}

/// Of sched_switch: whether the old thread was put off, the old one, the new one, the old one's state
/// (Linux 5.18). The old one is still the current one.
SEC("tp_btf/sched_switch")
int switched(const __u64* ctx) {
  const int could_run = (ctx[0] & 1) || (__u32)ctx[3] == 0;
  const struct task_struct* next = (const struct task_struct*)ctx[2];
  __u64 now = bpf_ktime_get_ns();
  if (is_over(now))
    now = profile_state.end_ns;
  else if (!could_run || profile_config.preempted)
    leave(ctx, now, could_run);
  const __u32 tid = next->pid;
  if (tid) end_pending(tid, now);
  if ((__u32)ctx[3] & TASK_DEAD) drop_pending(((const struct task_struct*)ctx[1])->pid);
  return 0;
}

/// Keeps a sample of the current thread as what has woken another.
static __always_inline void keep_waker(const __u64* ctx, __u32 woken_tid, __u64 now) {
  struct taking taking = {.ctx = ctx, .kind = VITRINE_SAMPLE_WAKER, .now = now, .in_kernel = 1};
  taking.task = bpf_get_current_task_btf();
  if (taking.task->pid) find_process(&taking.process);
  struct scratch* s = claim_scratch();
  if (!s) return;
  const __u64 bytes = take_sample(s, &taking, 0);
  if (bytes) {
    fill_pending(s, bytes, now);
    if (bpf_map_update_elem(&wakings, &woken_tid, &s->pending, BPF_NOEXIST)) free_all(&s->pending);
  }
  release_scratch(s);
}

/// A function: what it has on its stack is not there while the waker's sample is taken.
static __noinline int is_woken_wanted(const __u64* ctx) {
  struct process process = {};
  return is_wanted(&process, (struct task_struct*)ctx[0], VITRINE_SAMPLE_WAKER);
}

/// Of sched_waking: the thread that is woken. It is asleep, or on its way there: its sample may be kept a little
/// later, which is why this asks for none. One that wakes itself is on its CPU, and stays there.
SEC("tp_btf/sched_waking")
int woken(const __u64* ctx) {
  const struct task_struct* task = (const struct task_struct*)ctx[0];
  const __u64 now = bpf_ktime_get_ns();
  if (task == bpf_get_current_task_btf()) return 0;
  if (is_over(now) || !is_woken_wanted(ctx)) return 0;
  const __u32 tid = task->pid;
  drop_waking(tid);  // whatever becomes of this one, that is not the waker any more
  keep_waker(ctx, tid, now);
  return 0;
}

/// Of vm_unmapped_area: the free address that is about to be mapped, and for what. Where a region was
/// known, its code is gone.
SEC("raw_tp/vm_unmapped_area")
int reused(const __u64* ctx) {
  const __u64 start = ctx[0];
  const struct vm_unmapped_area_info* info = (const struct vm_unmapped_area_info*)ctx[1];
  const __u64 length = BPF_CORE_READ(info, length);
  if (start >> 63) return 0;  // an error
  const __u32 tgid = bpf_get_current_pid_tgid() >> 32;
  if (!has_code_within(tgid, start, start + length)) return 0;
  const __u64 now = bpf_ktime_get_ns();
  note_reuse(now);
  bpf_map_update_elem(&reused_at, &tgid, &now, BPF_ANY);
  return 0;
}

/// An address in the kernel, and what the kernel calls it: written by the loader, and by name_address().
__u64 named_address;
char name_of_address[VITRINE_KERNEL_NAME];

/// Run by the loader. The kernel finds two names in less time than it takes to print all of them.
SEC("syscall")
int find_scheduler(const void* ctx) {
  static const char start_name[] = "__sched_text_start", end_name[] = "__sched_text_end";
  __u64 start = 0, end = 0;
  if (bpf_kallsyms_lookup_name(start_name, sizeof start_name, 0, &start) ||
      bpf_kallsyms_lookup_name(end_name, sizeof end_name, 0, &end))
    return 0;
  scheduler_start = start;
  scheduler_end = end;
  return 0;
}

/// Run by the loader, one at a time.
SEC("syscall")
int name_address(const void* ctx) {
  BPF_SNPRINTF(name_of_address, sizeof name_of_address, "%ps", named_address);
  return 0;
}

/// Until when cut() reports threads that are off; written by the loader.
__u64 cut_ns;

static long cut_one(void* map, const __u32* tid, struct vitrine_pending* entry, void* unused) {
  (void)map, (void)tid, (void)unused;
  cut_pending(entry, cut_ns);
  return 0;
}

/// Run by the loader. Not an iterator of the map: some kernels refuse those even to root.
SEC("syscall")
int cut(const void* ctx) {
  bpf_for_each_map_elem(&pending, cut_one, NULL, 0);
  return 0;
}
