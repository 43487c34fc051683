// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The labels of whatever thread of a wanted process runs when the CPU clock ticks, read in that
// interrupt: the thread is suspended by it, which is what the label formats ask for.
#include "bpf/kernel/kernel_types.bpf.h"
// The helpers' declarations want the types above.
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>

#include "bpf/kernel/read_labels.bpf.h"
#include "bpf/wire/wire.h"

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

/// Reads one definition. False when the buffer is full.
static __always_inline int read_definition(struct label_buffer* out, __u32 index,
                                           const struct vitrine_target* target, __u64 tp) {
  const struct vitrine_definition* definition =
      &target->definitions[bounded(index, VITRINE_DEFINITIONS)];
  const __u64 begin = out->used;
  struct vitrine_set* set = append(out, sizeof *set);
  if (!set) return 0;
  struct slot_place place = {};
  find_slot(&place, definition, target, tp, 0);
  if (place.state == VITRINE_SLOT_UNREADABLE) out->faults++;
  if (place.state == VITRINE_SLOT_READ)
    copy_set(out, definition->shape, &place, target->address_mask);
  set = piece_at(out, begin);
  set->definition = index;
  set->state = place.state;
  set->slot_address = place.address;
  set->slot = place.slot;
  set->bytes = out->used - begin - sizeof *set;
  set->reserved = 0;
  return 1;
}

struct definition_walk {
  struct label_buffer* out;
  const struct vitrine_target* target;
  __u64 tp;
  __u32 sets;
};

static long read_next_definition(__u32 index, void* context) {
  struct definition_walk* walk = context;
  if (!read_definition(walk->out, index, walk->target, walk->tp)) return 1;
  walk->sets++;
  return 0;
}

/// Appends a vitrine_set for each definition of `target`, read in the current thread. Returns how
/// many there are.
static __always_inline __u32 read_labels(struct label_buffer* out,
                                         const struct vitrine_target* target) {
  struct definition_walk walk = {.out = out, .target = target};
  walk.tp = thread_pointer_of((struct task_struct*)bpf_get_current_task());
  bpf_loop(target->definition_count, read_next_definition, &walk, 0);
  return walk.sets;
}

SEC("perf_event")
int sample(void* ctx) {
  const __u32 tgid = bpf_get_current_pid_tgid() >> 32;
  const struct vitrine_target* target = bpf_map_lookup_elem(&targets, &tgid);
  if (!target) return 0;
  const struct task_struct* task = (struct task_struct*)bpf_get_current_task();
  const unsigned int flags = BPF_CORE_READ(task, flags);
  if (is_exiting(flags) || is_of_the_kernel(flags)) return 0;
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
