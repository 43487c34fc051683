// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// A sample of a thread, most often the current one: labels, the kernel's stack, registers, and a copy of its stack, or
// its frames where a program unwinds.
#pragma once

#include "bpf/kernel/profile/sample_state.bpf.h"
#ifdef UNWINDS
#include "bpf/kernel/profile/kernel_stack.bpf.h"
#include "bpf/kernel/profile/known_thread.bpf.h"
#include "bpf/kernel/profile/rows.bpf.h"
#include "bpf/kernel/profile/unwind.bpf.h"
#else
#define kernel_stack_of(s, into, at, taking, is_on_cpu) \
  KERNEL_STACK(taking, into, KERNEL_STACK_BYTES)
#endif

/// Whether user code is on the thread's stack: not in a thread of the kernel, nor once its last has
/// run, nor while the kernel loads another program, as that has not begun. What the kernel does then,
/// such as giving back the memory, is the process's time all the same.
static __always_inline __u64 has_user_code(const struct taking* taking) {
  const unsigned int flags = taking->task->flags;
  return ~vitrine_if_zero(taking->process.start_code) &
         vitrine_if_zero(flags & (PF_OF_THE_KERNEL | PF_EXITING)) & 1;
}

/// Whether the profile has ended. The loader may be late to detach the programs, beside many busy
/// threads: how long is sampled does not depend on when it has a CPU.
static __always_inline int is_over(__u64 now) {
  return profile_state.end_ns && now >= profile_state.end_ns;
}

/// Of a process that is identified.
static __always_inline int is_refused(const struct process* process) {
  const __u32 selection = *(volatile __u32*)&profile_state.selection;
  if (!profile_config.selects || !selection) return 0;
  const __u32 tgid = process->tgid;
  const struct vitrine_refused_process* refused = bpf_map_lookup_elem(&refused_processes, &tgid);
  const struct vitrine_refused_process now = {.start_ns = process->born,
                                              .image = process->image,
                                              .exec_id = process->exec_id,
                                              .selection = selection};
  return refused && vitrine_is_refused(refused, &now);
}

/// What was given of a process that is identified. Returns whether there is something.
static __always_inline int find_given(struct vitrine_given_process* given,
                                      const struct process* process) {
  const __u32 tgid = process->tgid;
  const volatile struct vitrine_given_process* place =
      &profile_state.given[bounded(tgid, VITRINE_PLACES)];
  given->given_ns = place->given_ns;
  given->image = place->image;
  given->tgid = place->tgid;
  given->is_bystander = place->is_bystander;
  if (given->tgid == tgid && place->check == vitrine_check_of_given(given))
    return process->born <= given->given_ns;
  const struct vitrine_target* target = given_target(tgid, process->born);
  if (!target) return 0;
  given->given_ns = target->given_ns;
  given->image = target->image;
  given->is_bystander = target->is_bystander;
  return 1;
}

/// Whether samples of this thread are asked for; fills in its process. Those of a process that is refused are
/// counted.
static __always_inline int is_wanted(struct process* process, const struct task_struct* task,
                                     __u32 kind) {
  if (task->pid == 0) return 0;
  identify(process, task);
  const int only_given = !profile_config.every_process && !profile_config.follow;
  struct vitrine_given_process given;
  if (only_given && (!find_given(&given, process) || given.is_bystander)) return 0;
  if (is_refused(process)) {
    const int is_sample = kind != VITRINE_SAMPLE_WAKER;
    tally(VITRINE_PROFILE_SAMPLES, is_sample);
    tally(VITRINE_PROFILE_UNWANTED, is_sample);
    return 0;
  }
  if (only_given && (given.image == 0 || given.image == process->image)) {
    process->selected = 1;
    process->given_tgid = process->tgid;
    process->given_ns = given.given_ns;
    return 1;
  }
  find_target(process, task);
  return profile_config.every_process || process->selected;
}

/// Of the current task. What it finds are numbers in memory, so the verifier goes through what follows once.
VERIFIED_ALONE int is_current_wanted(struct process* process, __u32 kind) {
  return process ? is_wanted(process, bpf_get_current_task_btf(), kind) : 0;
}

static __always_inline __u64 append_kernel_stack(struct scratch* s, __u64 at,
                                                 const struct taking* taking, int is_on_cpu) {
  void* into = behind_labels(&s->room.out, at);
  // Of a waker it shows whether the thread has done it.
  const int is_wanted = profile_config.kernel_stacks || taking->kind == VITRINE_SAMPLE_WAKER;
  if (!taking->in_kernel || !is_wanted) return 0;
  const long got = kernel_stack_of(s, into, at, taking, is_on_cpu);
  return got > 0 ? got & ~7ULL : 0;
}

/// Those of its user code: where it entered the kernel they were saved, also by the interrupt. `is_on_cpu`: where that
/// interrupted user code they are the program's context, too. Then only those that stacks are unwound by are read, as a
/// sample that is added to its row needs no others: fill_registers() reads them all.
static __always_inline __u64 append_registers(struct scratch* s, __u64 at,
                                              const struct taking* taking, __u64 has_code,
                                              int is_on_cpu) {
  if (!has_code) return 0;
  __u64* into = behind_labels(&s->room.out, at);
#ifdef UNWINDS
  if (is_on_cpu && !taking->in_kernel) {
    into[INSTRUCTION_POINTER] = taking->ctx[INSTRUCTION_POINTER];
    into[STACK_POINTER] = taking->ctx[STACK_POINTER];
    into[FRAME_POINTER] = taking->ctx[FRAME_POINTER];
#if !defined(__TARGET_ARCH_x86)
    into[LINK_REGISTER] = taking->ctx[LINK_REGISTER];
#endif
    s->registers_at = at;
    return REGISTER_WORDS * 8;
  }
#endif
  const void* saved = (const void*)bpf_task_pt_regs(taking->task);
  return bpf_probe_read_kernel(into, REGISTER_WORDS * 8, saved) ? 0 : REGISTER_WORDS * 8;
}

_Static_assert(VITRINE_STACK_COPY / 4096 + 1 <= 32, "a bit for each page of a copy");

struct stack_copy {
  struct scratch* s;
  __u64 at; /* in the sample, of what is at `from` */
  __u64 from, address, end;
  __u64 copied_to; /* the last page that was there ends here */
  __u32 gaps;
};

/// Up to the next page: that one may not be resident, or not there at all. A large array that its
/// function has not used yet is such a page, and callers are above it.
static long copy_page(__u32 index, void* context) {
  struct stack_copy* copy = context;
  const __u64 left = copy->end - copy->address, in_page = 4096 - (copy->address & 4095);
  const __u64 most = in_page + ((left - in_page) & vitrine_if_negative(left - in_page));
  void* into = sample_at(&copy->s->room.out, copy->at + (copy->address - copy->from));
  if (!into || !left) return 1;
  const __u64 size = bounded(most - 1, 4096) + 1;
  const __u64 failed = vitrine_if_negative(READ_USER(into, size, copy->address));
  copy->gaps |= (failed & 1) << (index & 31);
  copy->address += size;
  copy->copied_to += (copy->address - copy->copied_to) & ~failed;
  return (vitrine_if_negative(copy->address - copy->end) & 1) ^ 1;
}

/// Cuts a copy to where the stack ends. The kernel starts the first thread's below `start_stack`; a
/// C library has a thread's variables above its stack, and the thread pointer there.
static __always_inline __u64 stack_end(__u64 from, __u64 most, __u64 first, __u64 thread_pointer) {
  __u64 end = from + most;
  if (first >= from && first + 8 < end) end = first + 8;
  if (thread_pointer > from && thread_pointer < end) end = thread_pointer & ~7ULL;
  return end;
}

/// Returns where it ends, which is behind the last page that is resident; the gaps are in s->gaps.
VERIFIED_ALONE __u64 copy_stack(struct scratch* s, __u64 at, __u64 from, __u64 end) {
  if (!s) return at;
  struct stack_copy copy = {
      .s = s, .at = at, .from = from, .address = from, .end = end, .copied_to = from};
  loop_rarely(VITRINE_STACK_COPY / 4096 + 1, copy_page, &copy);
  s->gaps = copy.gaps;
  return at + (copy.copied_to - from);
}

/// Goes from the thread's g over its m to the stack that it has left for the one that it is on, into
/// s->left. What is read may be anything: a stack counts only within the bounds that its g has of it.
/// Returns whether there is one. A function: what it has on its stack is not there while labels are read.
VERIFIED_ALONE int find_left_stack(struct scratch* s, __u64 task) {
  if (!s) return 0;
  s->left.start = 0;
  if (!profile_state.go_files) return 0;
  const struct vitrine_executable executable = executable_of((const struct task_struct*)task);
  const struct vitrine_go_file* file = bpf_map_lookup_elem(&go_files, &executable);
  __u64 g = 0, m = 0, own = 0, other = 0, pointer = 0, bounds[2];
  if (!file || READ_USER(&g, 8, s->room.thread_pointer + (__s64)file->g_of_thread) ||
      READ_USER(&m, 8, g + file->m_of_g) || READ_USER(&own, 8, m) ||
      READ_USER(&pointer, 8, m + file->vdso_of_m))
    return 0;
  // In the vdso, the thread is still the goroutine's; m.vdsoSP is above the frame that calls it.
  const int in_vdso = pointer != 0 && g != own;
  other = in_vdso ? g : own;
  if (g == own && READ_USER(&other, 8, m + file->current_of_m)) return 0;
  if (in_vdso)
    pointer -= 16;
  else if (READ_USER(&pointer, 8, other + file->stack_of_g))
    return 0;
  if (READ_USER(bounds, 16, other)) return 0;
  if (pointer % 8 || pointer < bounds[0] || pointer >= bounds[1]) return 0;
  s->left.start = pointer;
  s->left.end = bounds[1];
  return 1;
}

/// The sample's registers are at `registers_at`; `start_stack`: of its process. Returns where the sample ends.
VERIFIED_ALONE __u64 append_stack(struct scratch* s, __u64 registers_at, __u64 at, __u64 task,
                                  __u64 start_stack) {
  const __u64* registers = s ? sample_at(&s->room.out, registers_at) : 0;
  if (!registers) return at;
  struct vitrine_stack_sample* head = (struct vitrine_stack_sample*)s->room.out.bytes;
  __u64 most = profile_config.stack_bytes;
  if (most > VITRINE_STACK_COPY) most = VITRINE_STACK_COPY;
  const int has_left = find_left_stack(s, task);
  __u64 left_most = has_left ? s->left.end - s->left.start : 0;
  if (left_most > most) left_most = most;
  // Of both together there is not more than of one: the other stack has half of that at most.
  if (left_most > VITRINE_STACK_COPY / 2) left_most = VITRINE_STACK_COPY / 2;
  const __u64 room = VITRINE_STACK_COPY - left_most;
  const __u64 first_most = most < room ? most : room;
  const __u64 start = registers[STACK_POINTER] & ~7ULL;
  __u64 end = stack_end(start, first_most, start_stack, s->room.thread_pointer);
  head->stack_start = start;
  __u64 ends_at = copy_stack(s, at, start, end);
  head->stack_bytes = ends_at - at;
  head->stack_gaps = s->gaps;
  int is_cut = end - start == first_most || head->stack_bytes < end - start;
  if (has_left) {
    const __u64 left = s->left.start;
    at = (ends_at + 7) & ~7ULL;
    end = s->left.end;
    if (end - left > left_most) end = left + left_most;
    ends_at = copy_stack(s, at, left, end);
    head->left_start = left;
    head->left_bytes = ends_at - at;
    head->left_gaps = s->gaps;
    is_cut = end < s->left.end || head->left_bytes < end - left;
  }
  if (is_cut) head->event.flags |= VITRINE_SAMPLE_STACK_CUT;
  return ends_at;
}

/// Appends the frames of user code, if all are found, to where `at` is. Returns whether the stack must
/// be copied.
static __always_inline int append_frames(struct scratch* s, __u64 registers_at, __u64* at,
                                         const struct taking* taking,
                                         struct vitrine_stack_sample* head) {
#ifdef UNWINDS
  if (profile_config.unwinds == VITRINE_UNWINDS_NOT) return 1;
  head->unwound = unwind_user_stack(s, registers_at, *at, &taking->process,
                                    taking->kind == VITRINE_SAMPLE_OFF_CPU);
  head->unwound_to = s->unwinding.pc - !s->unwinding.interrupted;
  if (head->unwound != VITRINE_UNWOUND_WHOLE) return 1;
  head->frames = s->unwinding.frames;
  head->frame_bytes =
      head->frames < VITRINE_UNWIND_FRAMES ? head->frames * 8 : VITRINE_UNWIND_FRAMES * 8;
  head->space = s->unwinding.space;
  *at += head->frame_bytes;
  return profile_config.unwinds == VITRINE_UNWINDS_AND_COPIES;
#else
  return 1;
#endif
}

/// Fills s->room.out. Returns how many bytes the sample has; 0: there is none, see is_unwanted(). `is_on_cpu`: the
/// kind is VITRINE_SAMPLE_ON_CPU, as the compiler knows.
static __always_inline __u64 take_sample(struct scratch* s, struct taking* taking, int is_on_cpu) {
  struct label_room* room = &s->room;
  begin_record(room);
  room->whole = taking->kind != VITRINE_SAMPLE_ON_CPU;  // it may be sent much later, or never
#ifdef UNWINDS
  forget_row(&s->row);
  s->registers_at = 0;
#endif
  room->thread_pointer = thread_pointer_of_trusted(taking->task);
  const __u64 has_code = has_user_code(taking);
  struct vitrine_stack_sample* head = append(&room->out, sizeof *head);
  if (!head) return 0;
  fill_header(&head->event, taking->task, &taking->process, taking->now, room->epoch);
  fill_ids(&head->event, taking->task);
  head->event.kind = taking->kind;
  head->event.flags |= taking->flags;
  head->off_ns = 0;
  head->stack_start = 0;
  head->unwound_to = 0;
  head->subject = 0;
  head->stack_bytes = 0;
  head->left_start = 0;
  head->left_bytes = 0;
  head->frame_bytes = 0;
  head->unwound = VITRINE_UNWOUND_NOT_ASKED;
  head->space = 0;
  head->row = 0;
  head->generation = 0;
  head->stack_gaps = 0;
  head->left_gaps = 0;
  head->frames = 0;
  head->exec_id = taking->process.exec_id;
  head->model = 0;
  head->reserved = 0;
#ifdef UNWINDS
  begin_label_words(&room->words);
  const __u32 tid = taking->task->pid;
  const int may_be_known = is_on_cpu && has_code && profile_config.rows && !profile_config.filter;
  if (may_be_known) fill_facts(s, taking, (const __u64*)head->event.comm);
  const int is_compared = profile_config.unwinds == VITRINE_UNWINDS_AND_COPIES;
  const int is_known = may_be_known && is_known_thread(s, tid);
  if (is_known && !is_compared)
    take_known_labels(s, tid);
  else
#endif
  {
#ifdef UNWINDS
    if (s->row.slots.is_read && !is_compared)
      head->event.sets = append_known_sets(s, tid);
    else
#endif
        if (has_code)
      head->event.sets = append_sets_of(s, &taking->process, TASK_ADDRESS(taking));
#ifdef UNWINDS
    if (name_subject(s, taking->process.execution, has_code ^ 1)) return 0;
    head->subject = s->row.subject;
    if (is_known)
      tally(VITRINE_PROFILE_OTHER_LABELS, is_other_thread(s, tid));
    else if (is_compared && s->row.slots.is_read)
      tally(VITRINE_PROFILE_OTHER_LABELS, has_other_places(s, tid));
    if (may_be_known && s->row.is_known) keep_labels(s, tid);
#endif
  }
#ifdef UNWINDS
  if (is_known && is_compared) tally(VITRINE_PROFILE_KNOWN_LABELS, 1);
#endif
  __u64 at = room->out.used;
  head->kernel_bytes = append_kernel_stack(s, at, taking, is_on_cpu);
  at += head->kernel_bytes;
  __u64 registers_at = at;
  head->register_bytes = append_registers(s, at, taking, has_code, is_on_cpu);
  at += head->register_bytes;
  if (head->register_bytes && append_frames(s, registers_at, &at, taking, head) &&
      profile_config.stack_bytes) {
#ifdef UNWINDS
    if (is_on_cpu) fill_registers(s);
    if (is_on_cpu && s->row.lacks_sets) {
      const __u64 had = at;
      at = put_sets_in(s, &taking->process, at);
      registers_at += at - had;
    }
#endif
    at = append_stack(s, registers_at, at, TASK_ADDRESS(taking), taking->process.start_stack);
  }
#ifdef UNWINDS
  name_row(s);
#endif
  return at;
}

/// Of a sample that take_sample() has not taken: whether the filter does not want it.
static __always_inline int is_unwanted(const struct scratch* s) {
#ifdef UNWINDS
  return s && s->row.is_unwanted;
#else
  return 0;
#endif
}

#ifdef UNWINDS
/// Of rows: that of a sample of this time.
static __always_inline __u32 generation_at(__u64 time_ns) {
  const __u32 generation = *(volatile __u32*)&profile_state.generation;
  return vitrine_row_generation(generation, VITRINE_ROW_LOAD(&profile_state.boundary), time_ns);
}
#endif

/// Whether the sample that s->row names has been added to its row, and is not to be sent.
static __always_inline int is_added(struct scratch* s, __u64 time_ns, __u64 off_ns,
                                    int may_have_model) {
#ifdef UNWINDS
  struct named_row* row = &s->row.own;
  s->row.generation = generation_at(time_ns);
  if (may_have_model && is_span_new(s))
    row->found = VITRINE_ROW_OTHER;
  else
    find_row(row, s->row.generation);
  if (row->found != VITRINE_ROW_KNOWN || !add_to_row(row, time_ns, off_ns)) return 0;
  row->found = VITRINE_ROW_ADDED;
  return profile_config.unwinds != VITRINE_UNWINDS_AND_COPIES;
#else
  return 0;
#endif
}

/// After is_added(), of a sample that cannot be sent.
static __always_inline void give_row_up(struct scratch* s) {
#ifdef UNWINDS
  finish_row(&s->row.own, 0);
#endif
}

#ifdef UNWINDS
/// As send_sample(), where the sample's model has been sent.
VERIFIED_ALONE int send_span(struct scratch* s, __u64 time_ns) {
  if (!s) return 0;
  struct vitrine_span_sample* span = &s->row.span;
  span->time_ns = time_ns;
  span->kind = VITRINE_SAMPLE_SPAN;
  span->generation = s->row.generation;
  span->model = s->row.model.number + 1;
  span->row = s->row.own.found == VITRINE_ROW_CLAIMED ? s->row.own.number + 1 : 0;
  s->room.new_sets = 0;  // they are not sent
  const int sent =
      log_span(s) || bpf_ringbuf_output(&events, span, sizeof *span, wake_up_flags(0)) == 0;
  if (span->row) finish_row(&s->row.own, sent);
  return sent;
}
#endif

VERIFIED_ALONE int submit_sample(struct scratch* s, __u64 bytes, __u32 at_once) {
  return s ? submit(&s->room.out, bytes, SAMPLE_BYTES, at_once) : 0;
}

/// After is_added(): sends the sample of `bytes` bytes in s->room.out, as the first of its row if that
/// is new. Returns whether it had room.
static __always_inline int send_sample(struct scratch* s, __u64 bytes, int at_once) {
#ifdef UNWINDS
  struct vitrine_stack_sample* head = (struct vitrine_stack_sample*)s->room.out.bytes;
  const struct named_row* row = &s->row.own;
  const int is_added = row->found == VITRINE_ROW_ADDED;
  if (is_added) head->event.flags |= VITRINE_SAMPLE_ADDED;
  head->row = is_added || row->found == VITRINE_ROW_CLAIMED ? row->number + 1 : 0;
  head->generation = s->row.generation;
  const int sent = submit_sample(s, bytes, at_once);
  finish_row(row, sent);
  return sent;
#else
  return submit_sample(s, bytes, at_once);
#endif
}

#ifdef UNWINDS
/// After is_added(), of a sample that has no model: sends it, as a model if it can be one.
VERIFIED_ALONE int send_model(struct scratch* s, __u64 bytes, __u32 at_once) {
  if (!s) return 0;
  struct vitrine_stack_sample* head = (struct vitrine_stack_sample*)s->room.out.bytes;
  struct named_row *own = &s->row.own, *model = &s->row.model;
  if (s->row.has_other_sets) {  // it is not the sample that was named
    give_row_up(s);
    finish_row(model, 0);
    own->found = model->found = VITRINE_ROW_OTHER;
  }
  if (model->found == VITRINE_ROW_KNOWN || model->found == VITRINE_ROW_CLAIMED)
    head->model = model->number + 1;
  const int sent = send_sample(s, bytes, at_once);
  finish_row(model, sent);
  if (!sent || s->row.has_other_sets) return sent;
  note_labels_sent(s, bpf_get_current_pid_tgid());
  keep_new_contents(s);
  return sent;
}

/// After is_added(), of a sample of `process` on its CPU: by what it differs from its model, or as a whole. Returns
/// whether it had room.
static __always_inline int send_span_or_sample(struct scratch* s, const struct process* process,
                                               __u64 bytes, __u64 time_ns) {
  find_model(s);
  if (s->row.model.found == VITRINE_ROW_KNOWN &&
      profile_config.unwinds != VITRINE_UNWINDS_AND_COPIES)
    return send_span(s, time_ns);
  fill_registers(s);
  if (s->row.lacks_sets) bytes = put_sets_in(s, process, bytes);
  return send_model(s, bytes, announce(process));
}
#endif
