// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// What happens when a probe fires: its arguments and the labels of its thread become an event, or
// are added up.
#include "bpf/kernel/kernel_types.bpf.h"
// The helpers' declarations want the types above.
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>

#include "bpf/kernel/trace/trace_state.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

// After trace_state.bpf.h, which documents how this program reads memory of the target.
#include "bpf/kernel/event.bpf.h"
#include "bpf/kernel/trace/capture.bpf.h"
#include "bpf/kernel/trace/known_process.bpf.h"
#include "bpf/kernel/trace/pairs.bpf.h"
#include "bpf/kernel/trace/reduce.bpf.h"
#include "bpf/kernel/trace/select_labels.bpf.h"
#include "bpf/kernel/trace/where.bpf.h"

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
  fill_header(&head->event, fire->task, &fire->process, fire->now, s->room.epoch);
  head->address = s->registers[VITRINE_PROBE_ADDRESS];
  head->program = fire->index;
  head->site = (__u32)fire->cookie;
  head->captures = 0;
  head->stack_bytes = 0;
  if (!carries_origins) return;
  head->cgroup = bpf_get_current_cgroup_id();
  head->uid = (__u32)bpf_get_current_uid_gid();
}

/// When what has the key of a start began: its thread, or with a match its process.
static __always_inline __u64 born(const struct fire* fire) {
  const struct task_struct* task = fire->task;
  return fire->program->match >= VITRINE_CAPTURES
             ? task->start_boottime
             : BPF_CORE_READ(task, group_leader, start_boottime);
}

static __always_inline __u32 append_stack(struct scratch* s, const struct fire* fire) {
  if (room_for(&s->room.out, STACK_BYTES) < STACK_BYTES) {
    s->room.out.cut++;
    return 0;
  }
  void* into = piece_at(&s->room.out, s->room.out.used);
  const long got = bpf_get_stack((void*)fire->ctx, into, STACK_BYTES, BPF_F_USER_STACK);
  if (got <= 0) return 0;
  s->room.out.used += (got + 7) & ~7ULL;
  return got & ~7ULL;
}

static __always_inline void drop_sets(struct label_room* room, struct vitrine_event_header* header,
                                      __u64 used) {
  room->out.used = used;
  room->new_sets = header->sets = 0;
}

/// If the reader has begun to keep other sets meanwhile, it may soon have none of those that were left out: then all
/// of them are put in.
static __always_inline void append_labels(struct scratch* s, const struct fire* fire,
                                          const struct vitrine_target* target,
                                          struct vitrine_event_header* header) {
  struct label_room* room = &s->room;
  const __u64 used = room->out.used, cut = room->out.cut, faults = room->out.faults;
  room->whole = 0;
  for (int turn = 0; turn < 2; ++turn) {
    room->epoch = header->epoch = config.epoch;
    header->sets = append_sets(room, target, fire->process.execution);
    if (room->epoch == config.epoch || room->whole) break;
    drop_sets(room, header, used);
    room->out.cut = cut;
    room->out.faults = faults;
    room->whole = 1;
  }
}

static __always_inline int submit_fire(struct scratch* s, int at_once) {
  return submit(&s->room.out, s->room.out.used, LABEL_BUFFER_BYTES, at_once);
}

static __noinline int emit(struct scratch* s, const struct fire* fire) {
  struct vitrine_fire* head = (struct vitrine_fire*)s->room.out.bytes;
  const struct vitrine_target* target = carries_labels ? known_target(s) : 0;
  if (target) append_labels(s, fire, target, &head->event);
  if (carries_stacks) head->stack_bytes = append_stack(s, fire);
  if (s->room.out.cut) head->event.flags |= VITRINE_FIRE_CUT;
  count(VITRINE_TRACE_FIRES, 1);
  count(VITRINE_TRACE_CUT, s->room.out.cut);
  count(VITRINE_TRACE_FAULTS, s->room.out.faults);
  if (submit_fire(s, announce(&fire->process)))
    note_all_sent(&s->room);
  else
    count(VITRINE_TRACE_LOST, 1);
  return 0;
}

/// Has the reader look at a process whose fires may lead to no event: without its labels a condition
/// on them never holds, and there is no group of them. Seldom, and with a frame of its own.
static __noinline int report_process(struct scratch* s, const struct fire* fire) {
  struct vitrine_fire* head = (struct vitrine_fire*)s->room.out.bytes;
  const __u64 used = s->room.out.used;
  if (!announce(&fire->process)) return 0;
  fill_ids(&head->event, fire->task);
  head->event.kind = VITRINE_RECORD_PROCESS;
  s->room.out.used = sizeof *head;
  submit_fire(s, 1);
  head->event.kind = VITRINE_RECORD_FIRE;
  s->room.out.used = used;
  return 1;
}

static __always_inline void learn_process(struct scratch* s, struct fire* fire) {
  if (carries_labels) {
    know_process(s, &fire->process);
    return;
  }
  if (trace_config.only_known) return;  // it was looked up at the beginning
  fire->process.tgid = fire->task->tgid;
  fire->process.born = fire->task->group_leader->start_boottime;
  set_image(&fire->process, fire->task);
}

/// Whether the condition holds, for what is captured of the fire first.
static __always_inline int passes(struct scratch* s, const struct fire* fire,
                                  struct vitrine_fire* head) {
  fill_ids(&head->event, fire->task);
  return holds(s, &fire->program->where, head->event.pid, head->event.tid);
}

// A fire is looked at in steps with a frame each: what one needs is not on the stack while another
// reads labels, which takes most of the 512 bytes.

/// What wants labels that are not known, or not certain, is for the reader to decide.
static __always_inline int is_untested(const struct fire* fire) {
  return fire->program->needed_labels &&
         fire->process.flags & (VITRINE_FIRE_UNKNOWN | VITRINE_FIRE_ASSUMED);
}

/// Of an end whose condition the reader tests: seldom, and with a frame of its own.
static __noinline int take_untested_start(struct scratch* s, const struct fire* fire) {
  struct vitrine_fire* head = (struct vitrine_fire*)s->room.out.bytes;
  head->event.kind = VITRINE_RECORD_LATENCY;
  return take_start(s, fire->program, born(fire), &head->address);
}

enum { FIRE_ENDS_HERE, FIRE_EMITTED, FIRE_ADDED_UP };

/// What becomes of a fire that passes its condition, or whose condition the reader tests: the record
/// has all but labels and stack. `done`: captures.
static __always_inline int conclude(struct scratch* s, struct fire* fire, __u32 done) {
  const int untested = is_untested(fire);
  const struct vitrine_site_program* program = fire->program;
  struct vitrine_fire* head = (struct vitrine_fire*)s->room.out.bytes;
  const int ends_pair = program->role == VITRINE_SLOW_END;
  const int emits = program->role == VITRINE_EMIT || ends_pair || untested;
  // What is only added up is of any process, unless its labels are asked for.
  if (!program->needed_labels && program->role != VITRINE_SLOW_START && (emits || carries_labels))
    learn_process(s, fire);
  if (!fire->now && (emits || fire->process.flags)) fire->now = bpf_ktime_get_ns();
  // What is only added up does not need the rest of it.
  if (emits || fire->process.flags) fill_head(s, fire, head);
  if (emits) fill_ids(&head->event, fire->task);
  if (untested)
    head->event.flags |= VITRINE_FIRE_UNTESTED;
  else if (program->needed_labels && fire->process.flags)
    report_process(s, fire);
  if (fire->process.flags & VITRINE_FIRE_UNKNOWN) count(VITRINE_TRACE_UNKNOWN, 1);
  const __u32 captures = program->captures;
  if (done < captures) done += capture_some(s, program, done, captures - done);
  head->captures = done;
  if (ends_pair && program->match < VITRINE_CAPTURES) {
    if (!take_slow(s, program, fire->now, born(fire))) return FIRE_ENDS_HERE;
    // An end takes its start away, whether the condition holds or not.
    if (!untested && program->where.count && !passes(s, fire, head)) return FIRE_ENDS_HERE;
  }
  if (adds_up && untested && program->role == VITRINE_LATENCY_END && !take_untested_start(s, fire))
    return FIRE_ENDS_HERE;
  if (program->role == VITRINE_SLOW_START) {
    s->kept.pair.began = fire->now;
    s->kept.pair.program = fire->index;
    s->kept.pair.site = (__u32)fire->cookie;
    s->kept.pair.captures = done;
    s->kept.born = born(fire);
    keep_start(s, program);
    return FIRE_ENDS_HERE;
  }
  if (ends_pair) append_pair(s);
  return emits ? FIRE_EMITTED : FIRE_ADDED_UP;
}

/// Whether a fire passes its condition, as far as the kernel can decide; and how many captures that
/// took. One that fails costs no more than that takes: what only an event needs comes behind it.
static __always_inline int decide(struct scratch* s, struct fire* fire, __u32* done) {
  const struct vitrine_site_program* program = fire->program;
  const int ends_pair = program->role == VITRINE_SLOW_END;
  const int by_thread = program->match >= VITRINE_CAPTURES;
  if (program->role >= VITRINE_LATENCY_START) fire->now = bpf_ktime_get_ns();
  // Before anything is read for it: most pairs are fast.
  if (ends_pair && by_thread && !take_slow(s, program, fire->now, born(fire))) return 0;
  if (program->needed_labels) know_process(s, &fire->process);
  begin_record(&s->room);
  take_registers(s, fire->ctx, fire->cookie >> 63);
  struct vitrine_fire* head = append(&s->room.out, sizeof *head);
  if (!head) return 0;
  if (program->needed_labels && !is_untested(fire)) {
    for (int i = 0; i < VITRINE_SELECTED_LABELS; ++i) s->label[i] = 0;
    s->unread_labels = 0;
    const struct vitrine_target* target = known_target(s);
    if (target) select_labels(s, target, fire->process.execution);
  }
  const int untested = is_untested(fire);
  if (program->steps) calculate(s, program);
  *done = 0;
  if (!untested && program->where.count && (!ends_pair || by_thread)) {
    *done = capture_some(s, program, 0, program->captures - program->not_tested);
    if (!passes(s, fire, head)) {
      if (program->needed_labels && s->unread_labels) count(VITRINE_TRACE_UNREAD_LABELS, 1);
      if (fire->process.flags && program->needed_labels) {
        fire->now = bpf_ktime_get_ns();
        fill_head(s, fire, head);
        report_process(s, fire);
      }
      return 0;
    }
  }
  return 1;
}

/// In one frame, and not in that of the program: nothing of it is on the stack while emit() reads labels.
static __noinline int consider(struct scratch* s, struct fire* fire) {
  __u32 done = 0;
  return decide(s, fire, &done) ? conclude(s, fire, done) : FIRE_ENDS_HERE;
}

/// The value of a capture that is in a register: before anything is looked up or claimed for the fire. False: it is
/// elsewhere.
static __always_inline int is_in_register(const struct fire* fire,
                                          const struct vitrine_capture* capture, __u64* value) {
  const struct vitrine_operand* operand = &capture->operand;
  if (capture->calculated || capture->form != VITRINE_CAPTURE_VALUE ||
      operand->kind != VITRINE_REGISTER || operand->size > 8 || is_short_pair(operand))
    return 0;
  // The context takes no index that is not a constant.
  const __u64* ctx = fire->ctx;
  __u64 registers[REGISTER_WORDS];
#pragma unroll
  for (int i = 0; i < REGISTER_WORDS; ++i) registers[i] = ctx[i];
  __u64 base = operand->base;
  __asm__ volatile("" : "+r"(base));
  if (base >= REGISTER_WORDS) return 0;
  *value = fit(registers[base] >> (operand->shift & 63), operand);
  return 1;
}

/// Whether a test of a register alone rejects the fire: most fires of a trace with a condition end here. An end takes
/// its start away all the same.
static __noinline int is_rejected_at_once(const struct fire* fire) {
  const struct vitrine_site_program* program = fire->program;
  const struct vitrine_test* test = &program->where.tests[0];
  if (!program->where.first_rejects || test->subject != VITRINE_ON_ARGUMENT ||
      program->role == VITRINE_SLOW_END)
    return 0;
  const __u32 index = bounded(test->index, 32);
  __u64 value = 0;
  return index < VITRINE_CAPTURES && is_in_register(fire, &program->capture[index], &value) &&
         !compares(value, test);
}

/// Whether the fire has been added up by a register alone. Its labels are not asked for, and it has no condition.
static __noinline int is_added_at_once(const struct fire* fire) {
  const struct vitrine_site_program* program = fire->program;
  const __u32 index = bounded(program->value, 32);
  __u64 value = 0;
  return index < VITRINE_CAPTURES && is_in_register(fire, &program->capture[index], &value) &&
         add_plainly(program, fire->index, value,
                     program->capture[index].operand.flags & VITRINE_SIGNED ? 1 : 0);
}

/// With a frame of its own.
static __noinline int add_to_reduction(struct scratch* s, const struct fire* fire) {
  const int is_latency = fire->program->role >= VITRINE_LATENCY_START;
  return reduce(s, fire->program, fire->index, fire->now, is_latency ? born(fire) : 0);
}

static __always_inline int is_plain_count(const struct vitrine_site_program* program) {
  return program->role == VITRINE_COUNT && program->where.count == 0 && !has_groups(program);
}

/// Whether values are added up of all fires together.
static __always_inline int is_plain_sum(const struct vitrine_site_program* program) {
  return adds_up && !carries_labels && !program->needed_labels &&
         (program->role == VITRINE_HISTOGRAM || program->role == VITRINE_SUM) &&
         program->where.count == 0 && !has_groups(program);
}

static __always_inline int is_start(const struct vitrine_site_program* program) {
  return program->role == VITRINE_LATENCY_START || program->role == VITRINE_SLOW_START;
}

/// Whether the fire belongs to the trace that was there before, or to the one that takes over.
static __always_inline int is_of_another(const struct vitrine_site_program* program) {
  const __u64 from = trace_config.from_ns, until = trace_config.until_ns;
  if (!(from | until)) return 0;
  const __u64 now = bpf_ktime_get_ns();
  return (now < from && !is_start(program)) || (until && now >= until);
}

/// Whether it is a process that vitrine has forked and that has executed nothing since: then both were started from one
/// opening of their file. Not inlined, so that its variables are on the stack only here.
static __noinline int is_forked_by_own(void) {
  const struct task_struct* task = bpf_get_current_task_btf();
  // By plain loads: a trace of files asks this at each fire.
  const struct task_struct* parent = task->real_parent;
  if (!parent || (__u32)parent->tgid != own_tgid) return 0;
  return BPF_CORE_READ(task, mm, exe_file) == BPF_CORE_READ(parent, mm, exe_file);
}

/// Whether vitrine itself fires: to write one fire would be the next.
static __always_inline int is_own(void) {
  if (!own_tgid) return 0;
  return (__u32)(bpf_get_current_pid_tgid() >> 32) == own_tgid || is_forked_by_own();
}

const volatile int never = 0;

/// From Linux 6.13 on, functions with more than 64 bytes of variables have them on a stack of their CPU, unless the
/// program has a tail call. While a fire waits for a page, or is preempted, another on this CPU would write into its
/// variables: there, they must be on the stack of its task. The call is never made, and the verifier removes it.
static __always_inline void keep_stack_of_task(void) {
  if (never) asm volatile("call 12 /* bpf_tail_call */" : : : "r0", "r1", "r2", "r3", "r4", "r5");
}

SEC("uprobe")
int trace(const __u64* ctx) {
  struct fire fire = {.ctx = ctx};
  keep_stack_of_task();
  fire.cookie = bpf_get_attach_cookie((void*)ctx);
  fire.index = (__u32)(fire.cookie >> 32) & 0x7fffffff;
  fire.program = program_of(fire.index);
  if (!fire.program || is_of_another(fire.program) || is_own()) return 0;
  const int plain = is_plain_count(fire.program);
  if (plain && !trace_config.only_known) {
    count_plainly(fire.index);
    return 0;
  }
  if (fire.program->where.count && is_rejected_at_once(&fire)) return 0;
  fire.task = bpf_get_current_task_btf();
  if (trace_config.only_known && !find_process(&fire.process)) return 0;
  if (plain) {
    count_plainly(fire.index);
    return 0;
  }
  if (is_plain_sum(fire.program) && is_added_at_once(&fire)) return 0;
  struct scratch* s = claim_scratch();
  if (!s) {
    count(VITRINE_TRACE_BUSY, 1);
    return 0;
  }
  const int what = consider(s, &fire);
  if (what == FIRE_EMITTED) emit(s, &fire);
  if (adds_up && what == FIRE_ADDED_UP) add_to_reduction(s, &fire);
  release_scratch(s);
  return 0;
}
