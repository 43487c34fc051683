// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// What happens when a probe fires: its arguments and the labels of its thread become an event, or
// are added up.
#include "kernel_types.bpf.h"
// The helpers' declarations want the types above.
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>

#include "capture.bpf.h"
#include "reduce.bpf.h"
#include "select_labels.bpf.h"
#include "trace_labels.bpf.h"
#include "trace_process.bpf.h"
#include "where.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define STACK_BYTES (127 * 8) /* kernel.perf_event_max_stack as shipped */

struct fire {
  const __u64* ctx;
  const struct vitrine_site_program* program;
  const struct task_struct* task;
  __u64 cookie;
  __u32 index; /* of the program */
  __u64 now;
  struct process process;
};

static __always_inline void fill_head(struct scratch* s, const struct fire* fire,
                                      struct vitrine_fire* head) {
  const struct task_struct* task = fire->task;  // a relocation takes in the whole expression
  head->time_ns = fire->now;
  head->process_start_ns = task->group_leader->start_boottime;
  head->address = s->registers[VITRINE_PROBE_ADDRESS];
  head->image = fire->process.image;
  head->kind = VITRINE_RECORD_FIRE;
  head->flags = fire->process.flags;
  head->program = fire->index;
  head->site = (__u32)fire->cookie;
  head->kernel_tgid = fire->process.tgid;
  head->cpu = bpf_get_smp_processor_id();
  head->epoch = config.epoch;
  head->captures = 0;
  head->sets = 0;
  head->stack_bytes = 0;
  head->reserved = 0;
  bpf_get_current_comm(head->comm, sizeof head->comm);
}

static __always_inline void fill_ids(const struct fire* fire, struct vitrine_fire* head) {
  const struct task_struct* task = fire->task;
  head->pid = task->tgid;
  head->tid = task->pid;
  if (!config.pid_level) return;
  head->tid = tid_at_level(task, config.pid_level);
  head->pid = tid_at_level(task->group_leader, config.pid_level);
}

static __always_inline __u32 append_stack(struct scratch* s, const struct fire* fire) {
  if (room_for(&s->out, STACK_BYTES) < STACK_BYTES) {
    s->out.cut++;
    return 0;
  }
  void* into = piece_at(&s->out, s->out.used);
  const long got = bpf_get_stack((void*)fire->ctx, into, STACK_BYTES, BPF_F_USER_STACK);
  if (got <= 0) return 0;
  s->out.used += (got + 7) & ~7ULL;
  return got & ~7ULL;
}

/// Without a wake-up unless the buffer fills, or something cannot wait.
static __always_inline int submit(struct scratch* s, int at_once) {
  const __u64 size = bounded(s->out.used, 2 * LABEL_BUFFER_BYTES);
  if (size > LABEL_BUFFER_BYTES) return 0;
  __u64 flags = BPF_RB_NO_WAKEUP;
  if (at_once ||
      (reader_waits && bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) >= config.wake_bytes)) {
    reader_waits = 0;
    flags = BPF_RB_FORCE_WAKEUP;
  }
  return bpf_ringbuf_output(&events, s->out.bytes, size, flags) == 0;
}

static __always_inline void emit(struct scratch* s, const struct fire* fire) {
  struct vitrine_fire* head = (struct vitrine_fire*)s->out.bytes;
  if (config.labels && fire->process.target)
    head->sets = append_sets(s, fire->process.target, fire->process.execution);
  if (config.stacks) head->stack_bytes = append_stack(s, fire);
  if (s->out.cut) head->flags |= VITRINE_FIRE_CUT;
  count(VITRINE_TRACE_FIRES, 1);
  count(VITRINE_TRACE_CUT, s->out.cut);
  count(VITRINE_TRACE_FAULTS, s->out.faults);
  if (submit(s, announce(&fire->process)))
    note_all_sent(s);
  else
    count(VITRINE_TRACE_LOST, 1);
}

/// Has the reader look at a process whose fires may lead to no event: without its labels a condition
/// on them never holds, and a group of them is none.
static __always_inline void tell_of_process(struct scratch* s, const struct fire* fire,
                                            struct vitrine_fire* head) {
  const __u64 used = s->out.used;
  if (!announce(&fire->process)) return;
  fill_ids(fire, head);
  head->kind = VITRINE_RECORD_PROCESS;
  s->out.used = sizeof *head;
  submit(s, 1);
  head->kind = VITRINE_RECORD_FIRE;
  s->out.used = used;
}

static __always_inline void run(struct scratch* s, struct fire* fire) {
  const struct vitrine_site_program* program = fire->program;
  // What wants labels that are not known, or not certain, is for the reader to decide.
  const int untested = program->needed_labels &&
                       fire->process.flags & (VITRINE_FIRE_UNKNOWN | VITRINE_FIRE_PRESUMED);
  const int emits = program->role == VITRINE_EMIT || untested;
  const int is_timed = program->role >= VITRINE_LATENCY_START;
  if (emits || is_timed || fire->process.flags) fire->now = bpf_ktime_get_ns();
  s->out.used = 0;
  s->out.cut = 0;
  s->out.faults = 0;
  s->new_sets = 0;
  take_registers(s, fire->ctx, fire->task, fire->cookie >> 63);
  struct vitrine_fire* head = append(&s->out, sizeof *head);
  if (!head) return;
  // What is only added up has no use for the rest of it.
  if (emits || fire->process.flags) fill_head(s, fire, head);
  if (emits || program->where.count) fill_ids(fire, head);
  if (untested) {
    head->flags |= VITRINE_FIRE_UNTESTED;
  } else if (program->needed_labels) {
    for (int i = 0; i < VITRINE_SELECTED_LABELS; ++i) s->label[i] = 0;
    if (fire->process.target) select_labels(s, fire->process.target, fire->process.execution);
    if (fire->process.flags) tell_of_process(s, fire, head);
  }
  if (fire->process.flags & VITRINE_FIRE_UNKNOWN) count(VITRINE_TRACE_UNKNOWN, 1);
  head->captures = capture_all(s, program);
  if (!untested && program->where.count && !holds(s, &program->where, head->pid, head->tid)) return;
  if (untested && program->role == VITRINE_LATENCY_END) {
    head->kind = VITRINE_RECORD_LATENCY;
    if (!take_start(s, program, &head->address)) return;
  }
  if (emits)
    emit(s, fire);
  else
    reduce(s, program, fire->index, fire->now);
}

static __always_inline int is_plain_count(const struct vitrine_site_program* program) {
  return program->role == VITRINE_COUNT && program->where.count == 0 && !has_groups(program);
}

SEC("uprobe")
int trace(const __u64* ctx) {
  struct fire fire = {.ctx = ctx};
  fire.cookie = bpf_get_attach_cookie((void*)ctx);
  fire.index = (__u32)(fire.cookie >> 32) & 0x7fffffff;
  fire.program = bpf_map_lookup_elem(&programs, &fire.index);
  if (!fire.program) return 0;
  const int plain = is_plain_count(fire.program);
  if (plain && !config.only_known) {
    count_plainly(fire.index);
    return 0;
  }
  fire.task = bpf_get_current_task_btf();
  if (config.only_known || config.labels || fire.program->needed_labels) {
    find_process(&fire.process, fire.task);
    if (config.only_known && !fire.process.ours) return 0;
  } else {
    fire.process.tgid = fire.task->tgid;
    fire.process.image = own_image(fire.task);
  }
  if (plain) {
    count_plainly(fire.index);
    return 0;
  }
  struct scratch* s = claim_scratch();
  if (!s) {
    count(VITRINE_TRACE_BUSY, 1);
    return 0;
  }
  run(s, &fire);
  release_scratch(s);
  return 0;
}
