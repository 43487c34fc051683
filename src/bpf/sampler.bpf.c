// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The labels of whatever thread of a wanted process runs when the CPU clock ticks, read in that
// interrupt: the thread is suspended by it, which is what the label formats ask for.
#include "kernel_types.bpf.h"
// The helpers' declarations want the types above.
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>

#include "read_labels.bpf.h"
#include "wire.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 64);
  __type(key, __u32);  // tgid, in the initial pid namespace
  __type(value, struct vitrine_target);
} targets SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct label_buffer);
} buffers SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, VITRINE_COUNTERS);
  __type(key, __u32);
  __type(value, __u64);
} counters SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 4 << 20);
} samples SEC(".maps");

static __always_inline void count(__u32 counter, __u64 more) {
  __u64* value = more ? bpf_map_lookup_elem(&counters, &counter) : 0;
  if (value) *value += more;
}

SEC("perf_event")
int sample(void* ctx) {
  const __u32 tgid = bpf_get_current_pid_tgid() >> 32;
  const struct vitrine_target* target = bpf_map_lookup_elem(&targets, &tgid);
  if (!target) return 0;
  const struct task_struct* task = (struct task_struct*)bpf_get_current_task();
  if (is_exiting(BPF_CORE_READ(task, flags))) return 0;
  const __u32 first = 0;
  struct label_buffer* out = bpf_map_lookup_elem(&buffers, &first);
  if (!out) return 0;
  out->used = 0;
  out->cut = 0;
  out->faults = 0;

  struct vitrine_sample* head = append(out, sizeof *head);
  if (!head) return 0;
  head->time_ns = bpf_ktime_get_ns();
  head->start_time_ns = BPF_CORE_READ(task, start_boottime);
  head->thread_pointer = thread_pointer_of(task);
  head->tid = tid_at_level(task, target->pid_level);
  head->kernel_tgid = (int)tgid;
  head->cpu = bpf_get_smp_processor_id();
  bpf_get_current_comm(head->comm, sizeof head->comm);
  head->sets = read_labels(out, target);

  count(VITRINE_SAMPLES, 1);
  count(VITRINE_SAMPLES_CUT, out->cut);
  count(VITRINE_FAULTS, out->faults);
  const __u64 size = bounded(out->used, 2 * LABEL_BUFFER_BYTES);
  if (size > LABEL_BUFFER_BYTES) return 0;
  if (bpf_ringbuf_output(&samples, out->bytes, size, 0)) count(VITRINE_LOST, 1);
  return 0;
}
