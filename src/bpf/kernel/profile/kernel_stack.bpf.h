// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The kernel's stack of a thread that leaves its CPU, or is interrupted in the kernel. To unwind it takes longer than all
// else of a sample, and threads wait, or are interrupted, at the same places again and again. Included by take_sample.bpf.h
// where a program unwinds.
//
// A stack that was unwound is kept with the places (slots) of its return addresses. It is the stack of another sample if
// each of them is at its place again: from the innermost frame on, the address that a frame returns to determines how
// large the caller's frame is, and so where the next one is. Of a thread that leaves its CPU that frame is at a fixed
// distance from the program's context. Of one that was interrupted it begins at the stack pointer, and the address in it
// is in the program's context: it has to be the same, and is slot 0. The exception is the function that was called by
// the code at the kernel's entry, as the kernel moves all below its frame by a random offset
// (CONFIG_RANDOMIZE_KSTACK_OFFSET). The return address into that code is below the registers of user code; the other slots are counted from the context, or from the stack pointer.
//
// A slot is only known where its address is at one place alone of the stack below that offset, and was there when the
// stack was unwound once more: what calls before have left moves with the offset. A stack of which one is not, or that
// is deeper, is unwound each time; and so is one of which a slot has something else. Which stack is compared follows
// from where user code was, and what it asked for.
#pragma once

#include "bpf/kernel/profile/sample_state.bpf.h"

#if defined(__TARGET_ARCH_x86)
#define KNOWS_KERNEL_STACKS
#endif

#ifdef KNOWS_KERNEL_STACKS

#define KERNEL_STACK_SIZE 32768 /* at most: an interrupt of another one is on another stack */

/// Of `max_misses`, each a power of two less one: of a stack that was found, and at most.
#define FOUND_MISSES 3
#define MOST_MISSES 4095

static __always_inline struct known_kernel_stack* known_at_place(struct scratch* s) {
  return &s->kernel.known[bounded(s->kernel.place, KNOWN_KERNEL_STACKS)];
}

static long compare_slot(__u32 index, void* context) {
  struct kernel_stack_state* kernel = &(*(struct scratch**)context)->kernel;
  const struct known_kernel_stack* known =
      &kernel->known[bounded(kernel->place, KNOWN_KERNEL_STACKS)];
  const __u64 slot = known->slot[bounded(index, KNOWN_KERNEL_FRAMES)];
  kernel->differs = kernel->words[bounded(slot, KERNEL_STACK_WORDS)] ^
                    known->frame[bounded(index, KNOWN_KERNEL_FRAMES)];
  return kernel->differs != 0;
}

/// Whether the return addresses of that stack are where they were.
static __always_inline int has_slots(struct scratch* s, const struct known_kernel_stack* known) {
  const __u32 last = known->frames - 1;
  s->kernel.differs = known->frame[bounded(last, KNOWN_KERNEL_FRAMES)] ^ s->kernel.entry[0];
  if (!s->kernel.differs) bpf_loop(last, compare_slot, &s, 0);
  return !s->kernel.differs;
}

/// What is at the kernel's entry of the stack that s->kernel is of, and where such a stack is kept.
static __always_inline int read_entry(struct scratch* s) {
  struct kernel_stack_state* kernel = &s->kernel;
  if (bpf_probe_read_kernel(kernel->entry, sizeof kernel->entry, (const void*)(kernel->to - 8)))
    return 0;
  // Of a library's system call the place in its page, which it has in every process; of an interrupt none.
  const __u64 call = kernel->entry[ENTRY_SYSTEM_CALL];
  const __u64 pc = call >> 63 ? 0 : kernel->entry[ENTRY_PC] & 4095;
  const __u64 key = (call << 14 | pc << 2 | kernel->is_kept_off << 1) + 1 + kernel->words[0];
  kernel->key = key;
  kernel->place = key * 0x9e3779b97f4a7c15ULL >> (64 - KNOWN_KERNEL_STACK_BITS);
  return 1;
}

/// After read_entry(): whether the stack is the one that is kept there.
static __always_inline int is_known_stack(struct scratch* s) {
  struct kernel_stack_state* kernel = &s->kernel;
  const struct known_kernel_stack* known = known_at_place(s);
  const __u64 bytes = bounded((__u64)known->words * 8 - 8, KERNEL_STACK_WORDS * 8);
  const __u64 room = kernel->to - kernel->from;
  const __u64 differs = (known->key ^ kernel->key) | (known->pc ^ kernel->words[0]);
  return !differs && known->is_sure && room > bytes && room < KERNEL_STACK_SIZE &&
         !bpf_probe_read_kernel(kernel->words + 1, bytes, (const void*)kernel->from) &&
         has_slots(s, known);
}

/// The stack into the sample at s->kernel.at, if it is known. Returns its bytes; 0: it is not.
VERIFIED_ALONE __u32 find_known_stack(struct scratch* s) {
  if (!s) return 0;
  struct kernel_stack_state* kernel = &s->kernel;
  kernel->key = 0;
  kernel->number = 0;
  if (!read_entry(s)) return 0;
  struct known_kernel_stack* known = known_at_place(s);
  void* into = behind_labels(&s->room.out, kernel->at);
  if (is_known_stack(s)) {
    known->misses = 0;
    known->max_misses = known->max_misses >> 1 | FOUND_MISSES;
    const __u32 size = bounded(known->frames * 8, KNOWN_KERNEL_FRAMES * 16);
    if (size > KNOWN_KERNEL_FRAMES * 8 || bpf_probe_read_kernel(into, size, known->frame)) return 0;
    kernel->number = known->number;
    return size;
  }
  if (++known->misses < known->max_misses) kernel->key = 0;
  return 0;
}

static long find_address(__u32 index, void* context) {
  struct kernel_stack_state* kernel = &(*(struct scratch**)context)->kernel;
  if (kernel->words[bounded(index, KERNEL_STACK_WORDS)] != kernel->address) return 0;
  if (!kernel->times++) kernel->found = index;
  return 0;
}

/// Into `times` and `found`.
static __always_inline void find_in_stack(struct scratch* s, __u64 address) {
  s->kernel.address = address;
  s->kernel.times = 0;
  bpf_loop(s->kernel.words_read, find_address, &s, 0);
}

/// Of the frame `index` of the sample's stack: its slot. Ends where there is none, or more than one.
static long learn_slot(__u32 index, void* context) {
  struct scratch* s = *(struct scratch**)context;
  struct kernel_stack_state* kernel = &s->kernel;
  struct known_kernel_stack* learnt = &kernel->learnt;
  const __u64* frame = sample_at(&s->room.out, kernel->at + index * 8);
  if (!frame || index >= KNOWN_KERNEL_FRAMES) return 1;
  const __u64 address = *frame;
  learnt->frame[bounded(index, KNOWN_KERNEL_FRAMES)] = address;
  if (index + 1 == kernel->frames) {
    learnt->frames = address == kernel->entry[0] ? kernel->frames : 0;
    return 1;
  }
  find_in_stack(s, address);
  if (kernel->times != 1 || kernel->found < learnt->words) return 1;
  learnt->slot[bounded(index, KNOWN_KERNEL_FRAMES)] = kernel->found;
  learnt->shape = (learnt->shape ^ address ^ kernel->found) * 0x9e3779b97f4a7c15ULL;
  learnt->words = kernel->found + 1;
  return 0;
}

/// The stack that was unwound, in the place that find_known_stack() looked at.
VERIFIED_ALONE int learn_kernel_stack(struct scratch* s) {
  if (!s) return 0;
  struct kernel_stack_state* kernel = &s->kernel;
  struct known_kernel_stack *known = known_at_place(s), *learnt = &kernel->learnt;
  known->misses = 0;
  known->max_misses = (known->max_misses << 1 | 1) & MOST_MISSES;
  // Its last slot is below what is looked at, as the registers are: it would be found twice.
  const __u64 bytes = kernel->to - 8 - kernel->from;
  if (kernel->frames < 2 || kernel->frames > KNOWN_KERNEL_FRAMES ||
      bytes >= (KERNEL_STACK_WORDS - 1) * 8)
    return 0;
  if (bpf_probe_read_kernel(kernel->words + 1, bounded(bytes, KERNEL_STACK_WORDS * 8),
                            (const void*)kernel->from))
    return 0;
  kernel->words_read = bytes / 8 + 1;
  learnt->frames = learnt->words = learnt->shape = 0;
  // Above the last of these slots is what the random offset has left: words of calls before.
  const __u64* last = sample_at(&s->room.out, kernel->at + (kernel->frames - 2) * 8);
  if (!last) return 0;
  find_in_stack(s, *last);
  if (!kernel->times) return 0;
  kernel->words_read = kernel->found + 1;
  loop_rarely(kernel->frames, learn_slot, &s);
  if (!learnt->frames) return 0;
  learnt->key = kernel->key;
  learnt->pc = kernel->words[0];
  learnt->misses = 0;
  learnt->max_misses = known->max_misses;
  learnt->is_sure =
      known->key == learnt->key && known->shape == learnt->shape && known->frames == learnt->frames;
  learnt->number = ++kernel->learnt_stacks << 16 | (s->index + 1);
  if (learnt->is_sure) kernel->number = learnt->number;
  bpf_probe_read_kernel(known, sizeof *known, learnt);
  return 1;
}

/// What is there already at `into`, to compare with what the kernel's unwinder finds.
static long compare_frame(__u32 index, void* context) {
  struct scratch* s = *(struct scratch**)context;
  const __u64* frame = sample_at(&s->room.out, s->kernel.at + index * 8);
  const struct known_kernel_stack* known = known_at_place(s);
  if (!frame || *frame != known->frame[bounded(index, KNOWN_KERNEL_FRAMES)]) s->kernel.frames = 0;
  return 0;
}

/// `at`: in the sample. `is_on_cpu`: the thread was interrupted: the program's context is its registers.
static __always_inline void place_kernel_stack(struct scratch* s, const struct taking* taking,
                                               __u64 at, int is_on_cpu) {
  if (is_on_cpu) {
    s->kernel.from = taking->ctx[STACK_POINTER];
    s->kernel.words[0] = taking->ctx[INSTRUCTION_POINTER];
  } else {
    s->kernel.from = (__u64)taking->ctx;
    s->kernel.words[0] = 0;
  }
  s->kernel.to = (__u64)bpf_task_pt_regs(taking->task);
  s->kernel.at = at;
  s->kernel.is_kept_off = taking->flags & VITRINE_SAMPLE_PREEMPTED ? 1 : 0;
}

/// After find_known_stack(), which has found `known` bytes: of the stack that was unwound, `got` bytes.
VERIFIED_ALONE int note_kernel_stack(struct scratch* s, __s64 got, __u32 known) {
  if (!s || got <= 0) return 0;
  struct kernel_stack_state* kernel = &s->kernel;
  kernel->frames = got / 8;
  if (known) {
    if (got == known) loop_rarely(got / 8, compare_frame, &s);
    tally(VITRINE_PROFILE_WRONG_KERNEL, got != known || !kernel->frames);
  } else if (kernel->key) {
    learn_kernel_stack(s);
  }
  return 0;
}

static __always_inline long kernel_stack_of(struct scratch* s, void* into, __u64 at,
                                            const struct taking* taking, int is_on_cpu) {
  struct kernel_stack_state* kernel = &s->kernel;
  kernel->number = 0;
  if (taking->kind == VITRINE_SAMPLE_WAKER || is_of_the_kernel(taking->task->flags))
    return KERNEL_STACK(taking, into, KERNEL_STACK_BYTES);
  place_kernel_stack(s, taking, at, is_on_cpu);
  const __u32 known = find_known_stack(s);
  tally(VITRINE_PROFILE_KNOWN_KERNEL, known != 0);
  if (known && profile_config.unwinds != VITRINE_UNWINDS_AND_COPIES) return known;
  const long got = KERNEL_STACK(taking, into, KERNEL_STACK_BYTES);
  note_kernel_stack(s, got, known);
  return got;
}

#else

static __always_inline long kernel_stack_of(struct scratch* s, void* into, __u64 at,
                                            const struct taking* taking, int is_on_cpu) {
  return KERNEL_STACK(taking, into, KERNEL_STACK_BYTES);
}

#endif
