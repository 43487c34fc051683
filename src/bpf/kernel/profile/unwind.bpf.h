// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The user stack of the current thread, unwound by the rules of wire/unwind.h.
//
// It restores what src/unwind/unwinder.cpp restores the usual way: stack pointer, frame pointer, pc.
// It stops at the first frame that needs more, or that is not known: then the stack is copied,
// and user space goes all the way. So its result is either the whole stack or nothing.
//
// Rules that were looked up are kept by pc, as stacks go through the same calls over and over: a
// known frame takes one cache line of these, and its words of the stack.
#pragma once

#include "bpf/kernel/profile/sample_state.bpf.h"
#include "bpf/wire/unwind.h"

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct vitrine_unwind_tables);
} unwind_tables SEC(".maps");

/// Where in `words` a page is.
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 32768);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, struct vitrine_unwind_page_key);
  __type(value, __u32);
} unwind_pages SEC(".maps");

/// The id of a process's space, by tgid in the initial pid namespace.
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, VITRINE_UNWIND_SPACES);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, __u32);
  __type(value, __u32);
} unwind_spaces SEC(".maps");

/// When processes mapped something last where they had code before, by tgid in the initial pid
/// namespace. Those that drop out did long ago.
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 8192);
  __type(key, __u32);
  __type(value, __u64);
} reused_at SEC(".maps");

/// Of the program that notes them: one of it runs on a CPU at a time.
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct region_search);
} reuse_searches SEC(".maps");

/// The last of these of any process, or later: no look is needed where it was long ago. Written before them.
__u64 last_reused_at;

#define REUSE_TRIES 8

static __always_inline void note_reuse(__u64 now) {
  for (int i = 0; i < REUSE_TRIES; ++i) {
    const __u64 last = *(volatile __u64*)&last_reused_at;
    if (last >= now || __sync_val_compare_and_swap(&last_reused_at, last, now) == last) return;
  }
  *(volatile __u64*)&last_reused_at = ~0ULL;  // from now on, each look is made
}

#define NOT_FOUND (1U << VITRINE_UNWIND_CODE_BITS) /* and an enum vitrine_unwound: no code */

#if defined(__TARGET_ARCH_x86)
#define DWARF_STACK_POINTER 7
#define DWARF_FRAME_POINTER 6
#define FRAME_POINTER 4
#define SIGNAL_FRAME_POINTER (40 + 10 * 8) /* struct sigcontext_64 in an rt_sigframe: rbp */
#define SIGNAL_WORDS 7
#define SIGNAL_STACK_POINTER 5 /* of these */
#define SIGNAL_PC 6
#define CODE_ADDRESS(word) (word)
#else
#define DWARF_STACK_POINTER 31
#define DWARF_FRAME_POINTER 29
#define FRAME_POINTER 29
#define LINK_REGISTER 30
#define SIGNAL_FRAME_POINTER (312 + 29 * 8)
#define SIGNAL_WORDS 4
#define SIGNAL_STACK_POINTER 2
#define SIGNAL_PC 3
#define CODE_ADDRESS(word) ((word)&0xffffffffffffULL) /* without its signature */
#endif

/// The registers that a sample of the current thread lacks yet. They were saved where user code was interrupted.
VERIFIED_ALONE int fill_registers(struct scratch* s) {
  if (!s || !s->registers_at) return 0;
  void* into = sample_at(&s->room.out, s->registers_at);
  const void* saved = (const void*)bpf_task_pt_regs(bpf_get_current_task_btf());
  s->registers_at = 0;
  if (into) bpf_probe_read_kernel(into, REGISTER_WORDS * 8, saved);
  return 1;
}

#if defined(__TARGET_ARCH_x86)
/// The words of pt_regs, as DWARF numbers the registers. (Without the pc the list would end with a 0:
/// clang takes that for a string, and places it where libbpf does not look for variables.)
static const __u8 register_words[17] = {10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16};
#endif

/// A frame of CPython's trampoline (observe/profile/code_reader.cpp: JitCode) around an address of JIT
/// code; other such code goes by frame pointers.
static __always_inline __u32 code_of_jit(struct unwinding* u, __u64 lookup) {
#if defined(__TARGET_ARCH_x86)
  // From its third byte: the end of sub $8, %rsp; call *%rcx; add $8, %rsp. ret follows.
  const __u64 middle = 0x08c48348d1ff08ecULL;
  const __u8* bytes = (const __u8*)u->words;
  if (READ_USER(u->words, 24, lookup - 10)) return VITRINE_UNWIND_BY_NUMBER | VITRINE_UNWIND_COPY;
  for (int at = 0; at < 11; ++at)
    if (*(const __u64*)(bytes + 12 - at) == middle) return at >= 4 && at < 10 ? 2U << 7 : 1U << 7;
#endif
  return VITRINE_UNWIND_BY_NUMBER | VITRINE_UNWIND_CONVENTION;
}

// Searches by bpf_loop, as the verifier goes through each step of another loop. Their numbers are in memory: of those on
// a stack the verifier keeps what they may be, which is something else in each step.

struct search_walk {
  const struct vitrine_unwind_tables* tables;
  struct region_search* regions;
  struct vitrine_unwind_search* rows;
};

static long search_row(__u32 index, void* context) {
  struct search_walk* walk = context;
  vitrine_unwind_search_step(walk->rows, walk->tables->words, index);
  return 0;
}

static __always_inline __u32 code_in(const struct vitrine_unwind_tables* tables,
                                     const struct vitrine_unwind_region* region,
                                     struct unwinding* u, __u64 lookup) {
  const __u64 address = lookup - region->bias;
  if (region->file == VITRINE_UNWIND_NO_FILE)
    return VITRINE_UNWIND_BY_NUMBER | VITRINE_UNWIND_CONVENTION;
  if (region->file == VITRINE_UNWIND_JIT_CODE) return code_of_jit(u, lookup);
  struct vitrine_unwind_page_key key = {region->file, address >> VITRINE_UNWIND_PAGE_BITS};
  const __u32* at = bpf_map_lookup_elem(&unwind_pages, &key);
  if (!at) return NOT_FOUND | VITRINE_UNWOUND_NO_PAGE;
  const __u64 page = *at;
  if (vitrine_unwind_word(tables->words, page) != key.file ||
      vitrine_unwind_word(tables->words, page + 1) != key.page)
    return NOT_FOUND | VITRINE_UNWOUND_NO_PAGE;
  struct search_walk walk = {.tables = tables, .rows = &u->search};
  vitrine_unwind_search_begin(&u->search, tables->words, page,
                              address & ((1 << VITRINE_UNWIND_PAGE_BITS) - 1));
  bpf_loop(VITRINE_UNWIND_SEARCH_STEPS, search_row, &walk, 0);
  return vitrine_unwind_search_end(&u->search, tables->words);
}

static __always_inline const struct vitrine_unwind_tables* tables_of_rules(void) {
  const __u32 only = 0;
  return bpf_map_lookup_elem(&unwind_tables, &only);
}

/// One of REGION_STEPS, the first with `index` 0.
static long search_region(__u32 index, void* context) {
  struct search_walk* walk = context;
  struct region_search* search = walk->regions;
  const __u64 step = (VITRINE_UNWIND_REGIONS / 2) >> (index & 31), below = search->below;
  const __u64 beyond = vitrine_if_negative(search->count - below - step);
  const __u64 at = search->first + below + (step & ~beyond) - 1;
  const __u64 start = walk->tables->regions[bounded(at, VITRINE_UNWIND_REGIONS)].start;
  search->below = below + (step & ~beyond & ~vitrine_if_negative(search->address - start));
  return 0;
}

/// How many of the regions of a search begin at or before an address.
static __always_inline __u64 regions_until(const struct vitrine_unwind_tables* tables,
                                           struct region_search* search, __u64 address) {
  struct search_walk walk = {.tables = tables, .regions = search};
  search->address = address;
  search->below = 0;
  bpf_loop(REGION_STEPS, search_region, &walk, 0);
  return search->below;
}

VERIFIED_ALONE __u32 find_code(struct scratch* s, __u64 lookup) {
  const struct vitrine_unwind_tables* tables = tables_of_rules();
  if (!s || !tables) return NOT_FOUND | VITRINE_UNWOUND_NO_SPACE;
  struct unwinding* u = &s->unwinding;
  const __u64 below = regions_until(tables, &u->regions, lookup);
  if (below == 0) return NOT_FOUND | VITRINE_UNWOUND_NO_REGION;
  const __u64 low = u->regions.first + below;
  const struct vitrine_unwind_region* region =
      &tables->regions[bounded(low - 1, VITRINE_UNWIND_REGIONS)];
  if (lookup >= region->end) return NOT_FOUND | VITRINE_UNWOUND_NO_REGION;
  return code_in(tables, region, u, lookup);
}

static __always_inline int is_rule_of(const struct known_rule* rule, __u64 lookup, __u32 space) {
  return rule->lookup == lookup && rule->space == space;
}

/// A rule that is not among the near ones, which takes its place there.
VERIFIED_ALONE __u32 find_far_code(struct scratch* s, __u64 lookup, __u64 hash) {
  if (!s) return NOT_FOUND | VITRINE_UNWOUND_NO_SPACE;
  const __u32 space = s->unwinding.space;
  struct known_rule *far = &s->known_rules[bounded(hash, KNOWN_RULES)],
                    *near = &s->near_rules[bounded(hash, NEAR_RULES)];
  if (!is_rule_of(far, lookup, space)) {
    const __u32 code = find_code(s, lookup);
    if (code & NOT_FOUND) return code;
    far->lookup = lookup;
    far->space = space;
    far->code = code;
  }
  *near = *far;
  return near->code;
}

static __always_inline __u32 code_at(struct scratch* s, __u64 lookup) {
  const __u64 hash = lookup * 0x9e3779b97f4a7c15ULL >> 52;
  const struct known_rule* near = &s->near_rules[bounded(hash, NEAR_RULES)];
  return is_rule_of(near, lookup, s->unwinding.space) ? near->code : find_far_code(s, lookup, hash);
}

/// Why there are no more frames. Returns what ends bpf_loop.
static __always_inline long end_unwinding(struct unwinding* u, __u32 result) {
  u->result = result;
  return 1;
}

/// A rule as it is applied.
struct step {
  __u64 base;
  __s32 cfa_offset, frame_pointer_offset, return_address_offset;
  __u8 frame_pointer, return_address; /* enum vitrine_unwind_source */
  __u8 is_switched;
};

static __always_inline void step_of_code(struct step* step, __u32 code) {
  const __u32 saved = code & VITRINE_UNWIND_MOST_SAVED;
  step->is_switched = 0;
  step->cfa_offset = (code >> 7 & VITRINE_UNWIND_MOST_CFA) * 8;
  step->frame_pointer = saved ? VITRINE_UNWIND_AT_CFA : VITRINE_UNWIND_SAME;
  step->frame_pointer_offset = -(__s32)(saved * 8);
#if defined(__TARGET_ARCH_x86)
  step->return_address = VITRINE_UNWIND_AT_CFA;
  step->return_address_offset = -8;
#else
  step->return_address = step->frame_pointer;
  step->return_address_offset = step->frame_pointer_offset + 8;
#endif
}

static __always_inline void note_slot(struct unwinding* u, __u64 address, __u64 word) {
  if (!profile_config.off_cpu) return;  // no sample on the CPU asks for them
  if (u->slots < KNOWN_USER_SLOTS) {
    struct known_slot* slot = &u->slot[bounded(u->slots, KNOWN_USER_SLOTS)];
    slot->address = address;
    slot->word = word;
  }
  u->slots++;
}

/// The frame pointer is used: so it matters where it is from.
static __always_inline void note_frame_pointer(struct unwinding* u) {
  if (!profile_config.off_cpu) return;
  if (u->fp_at) note_slot(u, u->fp_at, u->fp);
  u->fp_at = 0;
}

/// Returns whether the base's value is known.
static __always_inline int base_of(struct scratch* s, __u32 number, __u64* base) {
  struct unwinding* u = &s->unwinding;
  if (number == DWARF_STACK_POINTER) {
    *base = u->sp;
    return u->knows_sp;
  }
  if (number == DWARF_FRAME_POINTER) {
    note_frame_pointer(u);
    *base = u->fp;
    return u->knows_fp;
  }
  if (!u->knows_all) return 0;
  u->needs_more = 1;
  fill_registers(s);
#if defined(__TARGET_ARCH_x86)
  number = register_words[number & 15];
#endif
  const __u64* registers = sample_at(&s->room.out, u->registers_at);
  if (!registers) return 0;
  *base = registers[bounded(number, 32)];
  return 1;
}

/// Moves the window to `address`. Returns false where that is not resident.
VERIFIED_ALONE int move_window(struct scratch* s, __u64 address) {
  if (!s) return 0;
  struct unwinding* u = &s->unwinding;
  const __u64 in_page = 4096 - (address & 4095);
  const __u64 size = in_page < WINDOW_BYTES ? in_page : WINDOW_BYTES;
  u->window_bytes = 0;
  u->window_at = address;
  // A word that the page ends within is alone in its window.
  if (READ_USER(u->window, bounded(size < 8 ? 8 : size, 2 * WINDOW_BYTES), address)) return 0;
  u->window_bytes = size < 8 ? 8 : size;
  return 1;
}

/// The word of the stack at `address`, by way of a window: frames are adjacent, and one read of a
/// few of them takes hardly longer than that of one word. The window begins at the word that is not in
/// it, as callers' frames are above, and ends with the page, as the next may not be resident. Returns
/// false where the word is not resident.
static __always_inline int read_stack(struct scratch* s, __u64 address, __u64* word) {
  struct unwinding* u = &s->unwinding;
  __u64 offset = address - u->window_at;
  if (offset + 8 > u->window_bytes || offset > WINDOW_BYTES) {
    if (!move_window(s, address)) return 0;
    offset = 0;
  }
  *word = *(const __u64*)((const __u8*)u->window + bounded(offset, WINDOW_BYTES));
  return 1;
}

static __always_inline long apply(struct scratch* s, const struct step* step) {
  struct unwinding* u = &s->unwinding;
  const __u64 cfa = step->base + step->cfa_offset;
  if (!step->is_switched && (cfa < u->low || (cfa == u->low && !u->interrupted)))
    return end_unwinding(u, VITRINE_UNWOUND_BAD);
  const __u64 frame_at = cfa + step->frame_pointer_offset;
  // What is below the stack pointer at a call is the callee's: the register has been restored.
  const int is_popped = !step->is_switched && u->knows_sp && frame_at < u->sp && !u->interrupted;
  const int reads_frame = step->frame_pointer == VITRINE_UNWIND_AT_CFA && !is_popped;
  __u64 target = u->link, frame_pointer = 0;
  if (reads_frame && !read_stack(s, frame_at, &frame_pointer))
    return end_unwinding(u, VITRINE_UNWOUND_NO_MEMORY);
  if (step->return_address == VITRINE_UNWIND_AT_CFA) {
    if (!read_stack(s, cfa + step->return_address_offset, &target))
      return end_unwinding(u, VITRINE_UNWOUND_NO_MEMORY);
    note_slot(u, cfa + step->return_address_offset, target);
  } else if (!u->knows_link) {
    return end_unwinding(u, VITRINE_UNWOUND_NO_RULE);
  } else {
    u->needs_more = 1;
  }
  if (reads_frame) {
    u->fp_at = frame_at;
    u->fp = frame_pointer;
    u->knows_fp = 1;
  } else if (step->frame_pointer == VITRINE_UNWIND_GONE) {
    u->knows_fp = 0;
  }
  u->pc = CODE_ADDRESS(target);
  u->sp = u->low = cfa;
  u->knows_sp = 1;
  u->interrupted = 0;
  u->knows_link = 0;
  u->knows_all = 0;
  return u->pc ? 0 : end_unwinding(u, VITRINE_UNWOUND_WHOLE);
}

/// By the frame pointer, where no rule is.
static __always_inline long by_convention(struct scratch* s) {
  struct unwinding* u = &s->unwinding;
  if (!u->knows_fp || (u->fp & 7) || (u->fp == 0 && u->interrupted))
    return end_unwinding(u, VITRINE_UNWOUND_NO_RULE);
  if (u->fp == 0) {
    note_frame_pointer(u);
    return end_unwinding(u, VITRINE_UNWOUND_WHOLE);
  }
  if (u->fp < u->low) return end_unwinding(u, VITRINE_UNWOUND_NO_RULE);
  __u64 target = 0, frame_pointer = 0;
  if (!read_stack(s, u->fp, &frame_pointer) || !read_stack(s, u->fp + 8, &target))
    return end_unwinding(u, VITRINE_UNWOUND_NO_MEMORY);
  note_frame_pointer(u);
  note_slot(u, u->fp + 8, target);
  u->fp_at = u->fp;
  u->low = u->fp + 16;
  u->fp = frame_pointer;
  u->pc = CODE_ADDRESS(target);
#if defined(__TARGET_ARCH_x86)
  u->sp = u->low;
  u->knows_sp = 1;
#else
  u->knows_sp = 0; /* the pair may be anywhere in its frame */
#endif
  u->interrupted = 0;
  u->knows_link = 0;
  u->knows_all = 0;
  return u->pc ? 0 : end_unwinding(u, VITRINE_UNWOUND_WHOLE);
}

/// To what a signal handler interrupted, by the registers that the kernel saved.
static __always_inline long by_signal_frame(struct unwinding* u) {
  if (!u->knows_sp) return end_unwinding(u, VITRINE_UNWOUND_NO_RULE);
  if (READ_USER(u->words, SIGNAL_WORDS * 8, u->sp + SIGNAL_FRAME_POINTER))
    return end_unwinding(u, VITRINE_UNWOUND_NO_MEMORY);
  u->needs_more = 1;
  u->fp = u->words[0];
  u->sp = u->low = u->words[SIGNAL_STACK_POINTER];
  u->pc = CODE_ADDRESS(u->words[SIGNAL_PC]);
  u->knows_fp = 1;
  u->interrupted = 1;
  u->knows_all = 0;
#if !defined(__TARGET_ARCH_x86)
  u->link = u->words[1];
  u->knows_link = 1;
#endif
  return u->pc ? 0 : end_unwinding(u, VITRINE_UNWOUND_WHOLE);
}

static __always_inline long by_rule(struct scratch* s, __u32 code) {
  struct unwinding* u = &s->unwinding;
  struct step step;
  __u32 base = code & VITRINE_UNWIND_BY_FRAME_POINTER ? DWARF_FRAME_POINTER : DWARF_STACK_POINTER;
  if (code & VITRINE_UNWIND_BY_NUMBER) {
    const struct vitrine_unwind_tables* tables = tables_of_rules();
    if (!tables) return end_unwinding(u, VITRINE_UNWOUND_NO_RULE);
    const struct vitrine_unwind_rule* rule = &tables->rules[bounded(code, VITRINE_UNWIND_RULES)];
    step.cfa_offset = rule->cfa_offset;
    step.frame_pointer_offset = rule->frame_pointer_offset;
    step.return_address_offset = rule->return_address_offset;
    step.frame_pointer = rule->frame_pointer;
    step.return_address = rule->return_address;
    step.is_switched = rule->is_switched;
    base = rule->cfa_register;
  } else {
    step_of_code(&step, code);
  }
  if (!base_of(s, base, &step.base)) return end_unwinding(u, VITRINE_UNWOUND_NO_RULE);
  return apply(s, &step);
}

static long unwind_frame(__u32 index, void* context) {
  struct scratch* s = *(struct scratch**)context;
  struct unwinding* u = &s->unwinding;
  const __u32 code = code_at(s, u->pc - !u->interrupted);
  if (code & NOT_FOUND) return end_unwinding(u, code & 0xff);
  const __u32 half = VITRINE_UNWIND_FRAMES / 2;
  const __u32 slot = index < VITRINE_UNWIND_FRAMES ? index : half + index % half;
  __u64* frame = sample_at(&s->room.out, u->frames_at + slot * 8);
  if (!frame || index >= VITRINE_UNWIND_STEPS) return end_unwinding(u, VITRINE_UNWOUND_TOO_DEEP);
  u->frames = index + 1;
  *frame = u->pc | (u->interrupted ? 0 : VITRINE_UNWIND_RETURNS);
  switch (code) {
    case VITRINE_UNWIND_BY_NUMBER | VITRINE_UNWIND_COPY:
      return end_unwinding(u, VITRINE_UNWOUND_NO_RULE);
    case VITRINE_UNWIND_BY_NUMBER | VITRINE_UNWIND_CONVENTION:
      return by_convention(s);
    case VITRINE_UNWIND_BY_NUMBER | VITRINE_UNWIND_OUTERMOST:
      return end_unwinding(u, VITRINE_UNWOUND_WHOLE);
    case VITRINE_UNWIND_BY_NUMBER | VITRINE_UNWIND_SIGNAL:
      // The kernel made the handler return to the trampoline's first instruction: no call is before.
      *frame = u->pc;
      return by_signal_frame(u);
    default:
      return by_rule(s, code);
  }
}

static __always_inline __u64 last_reuse(void) {
  return *(volatile __u64*)&last_reused_at;
}

/// Returns whether a process has a space.
static __always_inline int find_space_id(__u32 tgid, __u32* id) {
  const __u64 place = *(volatile __u64*)&profile_state.spaces[bounded(tgid, VITRINE_PLACES)];
  *id = place;
  if (place >> 32 == tgid) return 1;
  const __u32* known = bpf_map_lookup_elem(&unwind_spaces, &tgid);
  if (known) *id = *known;
  return known != 0;
}

/// The regions of the process, if they are known, as of the program that it executes. Returns 0, or an
/// enum vitrine_unwound.
static __always_inline __u32 find_space(struct unwinding* u, __u32 tgid, __u64 execution) {
  const __u64 reuse_ns = last_reuse();  // before what it is compared to
  const struct vitrine_unwind_tables* tables = tables_of_rules();
  __u32 wanted;
  if (!tables || !find_space_id(tgid, &wanted)) return VITRINE_UNWOUND_NO_SPACE;
  const struct vitrine_unwind_space* space =
      &tables->spaces[bounded(wanted, VITRINE_UNWIND_SPACES)];
  if (space->id != wanted || space->tgid != tgid || space->execution != execution)
    return VITRINE_UNWOUND_NO_SPACE;
  if (reuse_ns >= space->known_ns) {
    const __u64* reused = bpf_map_lookup_elem(&reused_at, &tgid);
    if (reused && *reused >= space->known_ns) return VITRINE_UNWOUND_CHANGED;
  }
  u->space = wanted;
  u->regions.first = space->first;
  u->regions.count = space->count;
  return 0;
}

/// Whether a region of a process, as far as they are known, has something from `start` to `end`.
static __always_inline int has_code_within(__u32 tgid, __u64 start, __u64 end) {
  const struct vitrine_unwind_tables* tables = tables_of_rules();
  const __u32* id = bpf_map_lookup_elem(&unwind_spaces, &tgid);
  if (!tables || !id) return 0;
  const struct vitrine_unwind_space* space = &tables->spaces[bounded(*id, VITRINE_UNWIND_SPACES)];
  const __u32 only = 0;
  struct region_search* search = bpf_map_lookup_elem(&reuse_searches, &only);
  if (!search) return 0;
  search->first = space->first;
  search->count = space->count;
  const __u64 below = regions_until(tables, search, end - 1);
  if (below == 0) return 0;
  const __u64 last = search->first + below - 1;
  return tables->regions[bounded(last, VITRINE_UNWIND_REGIONS)].end > start;
}

/// The frames of user code into the sample at `at`; its registers are at `registers_at`. Returns an
/// enum vitrine_unwound; s->unwinding.frames are there. `notes_slots`: and what they follow from.
VERIFIED_ALONE __u32 unwind_user_stack(struct scratch* s, __u64 registers_at, __u64 at,
                                       const struct process* process, __u32 notes_slots) {
  if (!s || !process) return VITRINE_UNWOUND_NO_SPACE;
  struct unwinding* u = &s->unwinding;
  const __u64* registers = sample_at(&s->room.out, registers_at);
  u->frames = 0;
  u->result = 0;
  u->pc = 0;
  u->interrupted = 1;
  u->window_bytes = 0;
  u->slots = notes_slots ? 0 : KNOWN_USER_SLOTS + 1;
  u->needs_more = 0;
  u->fp_at = FRAME_POINTER_REGISTER;
  if (!registers) return VITRINE_UNWOUND_NO_SPACE;
  const __u32 unknown = find_space(u, process->tgid, process->execution);
  if (unknown) return unknown;
  u->pc = registers[INSTRUCTION_POINTER];
  u->sp = u->low = registers[STACK_POINTER];
  u->fp = registers[FRAME_POINTER];
  u->knows_sp = u->knows_fp = u->knows_all = 1;
#if defined(__TARGET_ARCH_x86)
  u->knows_link = 0;
#else
  u->link = registers[LINK_REGISTER];
  u->knows_link = 1;
#endif
  u->registers_at = registers_at;
  u->frames_at = at;
  bpf_loop(VITRINE_UNWIND_STEPS + 1, unwind_frame, &s, 0);
  return u->result ? u->result : VITRINE_UNWOUND_TOO_DEEP;
}
