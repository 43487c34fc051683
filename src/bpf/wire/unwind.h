/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The rules by which the profiling program unwinds stacks in the kernel, as its loader gives them.
 *
 * All is in one structure that both sides have mapped (struct vitrine_unwind_tables). Its parts are
 * filled from the start to the end like logs; what is in them is not changed before they begin anew.
 * Two hash tables have the places of what is in them: pages of rules by file and page, and the regions
 * of a process (its "space") by process. What they refer to names itself, so that an entry that was
 * replaced between two reads is noticed.
 *
 * A rule is a code of 20 bits. The most frequent are in the code itself:
 *
 *   bit 19: 0; bit 18: the base is the frame pointer, else the stack pointer;
 *   bits 7 to 17: the CFA's offset from it, in words;
 *   bits 0 to 6: where below the CFA the frame pointer is, in words; 0: in its register.
 *
 * The return address is the word below the CFA on x86-64. On aarch64 it is above the frame pointer,
 * or, where that is in its register, in the link register. Other codes have bit 19 set, and the
 * number of a vitrine_unwind_rule, or an enum vitrine_unwind_special. */
#pragma once

#include "bpf/wire/wire.h"

#define VITRINE_UNWIND_RULES 4096
#define VITRINE_UNWIND_REGIONS 32768
#define VITRINE_UNWIND_SPACES 16384
#define VITRINE_UNWIND_WORDS (1 << 19)
#define VITRINE_UNWIND_FRAMES \
  1024 /* of one stack: of a deeper one the first half, and the last, in a ring */
#define VITRINE_UNWIND_STEPS 8192 /* of one stack */

#define VITRINE_UNWIND_PAGE_BITS 12   /* bytes of code of a page of rules */
#define VITRINE_UNWIND_GRANULE_BITS 8 /* bytes of code that a search is narrowed to */
#define VITRINE_UNWIND_GRANULES (1 << (VITRINE_UNWIND_PAGE_BITS - VITRINE_UNWIND_GRANULE_BITS))

#define VITRINE_UNWIND_CODE_BITS 20
#define VITRINE_UNWIND_CODE_MASK ((1U << VITRINE_UNWIND_CODE_BITS) - 1)
#define VITRINE_UNWIND_BY_NUMBER (1U << 19)
#define VITRINE_UNWIND_BY_FRAME_POINTER (1U << 18)
#define VITRINE_UNWIND_MOST_CFA ((1U << 11) - 1)
#define VITRINE_UNWIND_MOST_SAVED ((1U << 7) - 1)

/* Numbers that are no rule's. */
enum vitrine_unwind_special {
  VITRINE_UNWIND_COPY,       /* user space must unwind the stack */
  VITRINE_UNWIND_CONVENTION, /* by frame pointers */
  VITRINE_UNWIND_OUTERMOST,
  VITRINE_UNWIND_SIGNAL,
  VITRINE_UNWIND_SPECIALS,
};

enum vitrine_unwind_source {
  VITRINE_UNWIND_AT_CFA,
  VITRINE_UNWIND_SAME,
  VITRINE_UNWIND_GONE,
};

struct vitrine_unwind_rule {
  __u8 cfa_register;  /* as DWARF numbers them */
  __u8 frame_pointer; /* enum vitrine_unwind_source */
  __u8 return_address;
  __u8 is_switched; /* the stack pointer may be of another stack than the CFA */
  __s32 cfa_offset;
  __s32 frame_pointer_offset;
  __s32 return_address_offset;
};

#define VITRINE_UNWIND_NO_FILE (~0U)      /* code by frame pointers */
#define VITRINE_UNWIND_JIT_CODE (~0U - 1) /* the same, but CPython's trampolines may be there */

/* An executable mapping. */
struct vitrine_unwind_region {
  __u64 start, end;
  __u64 bias;
  __u32 file;
  __u32 reserved;
};

/* The executable mappings of one process, by address. */
struct vitrine_unwind_space {
  __u64 execution; /* vitrine_execution_of */
  __u64 known_ns;  /* CLOCK_MONOTONIC: when that was so */
  __u32 tgid;      /* in the initial pid namespace */
  __u32 id;        /* as in the hash table: no other space has it */
  __u32 first;     /* of vitrine_unwind_tables.regions */
  __u32 count;
};

/* By what a page is found. */
struct vitrine_unwind_page_key {
  __u32 file;
  __u32 page; /* address in the file's own space >> VITRINE_UNWIND_PAGE_BITS */
};

/* A page, in words: its key; the position of the row that each granule begins with, and of the last
 * row, two in a word; then the rows: offset in the page << VITRINE_UNWIND_CODE_BITS | code. */
#define VITRINE_UNWIND_PAGE_INDEX 2
#define VITRINE_UNWIND_PAGE_ROWS (VITRINE_UNWIND_PAGE_INDEX + VITRINE_UNWIND_GRANULES / 2 + 1)

struct vitrine_unwind_tables {
  struct vitrine_unwind_rule rules[VITRINE_UNWIND_RULES];
  struct vitrine_unwind_space spaces[VITRINE_UNWIND_SPACES];
  struct vitrine_unwind_region regions[VITRINE_UNWIND_REGIONS];
  __u32 words[VITRINE_UNWIND_WORDS];
};

/* How the unwinding of a sample's user stack came out. */
enum vitrine_unwound {
  VITRINE_UNWOUND_NOT_ASKED,
  VITRINE_UNWOUND_WHOLE,
  /* Otherwise the stack is copied. */
  VITRINE_UNWOUND_NO_SPACE,  /* the process is not known yet */
  VITRINE_UNWOUND_CHANGED,   /* it has mapped something where it had code */
  VITRINE_UNWOUND_NO_REGION, /* an address that is in no known mapping */
  VITRINE_UNWOUND_NO_PAGE,   /* code whose rules are not there yet */
  /* And from here on not for lack of what comes soon. */
  VITRINE_UNWOUND_NO_RULE,   /* code that has no rule for the kernel */
  VITRINE_UNWOUND_NO_MEMORY, /* a word of the stack that is not resident */
  VITRINE_UNWOUND_BAD,       /* a frame below its callee's */
  VITRINE_UNWOUND_TOO_DEEP,  /* more than VITRINE_UNWIND_STEPS */
  VITRINE_UNWOUNDS,
};

/* A frame: its pc, and whether that is where a call returns to. */
#define VITRINE_UNWIND_RETURNS (1ULL << 63)

static inline __attribute__((always_inline)) __u32 vitrine_unwind_word(const __u32* words,
                                                                       __u64 at) {
  __asm__ volatile("" : "+r"(at));
  return words[at & (VITRINE_UNWIND_WORDS - 1)];
}

static inline __attribute__((always_inline)) __u32 vitrine_unwind_granule(const __u32* words,
                                                                          __u64 page,
                                                                          __u32 granule) {
  const __u32 two = vitrine_unwind_word(words, page + VITRINE_UNWIND_PAGE_INDEX + granule / 2);
  return (two >> ((granule & 1) * 16)) & 0xffff;
}

/* A search in a page for the last row that does not begin behind an offset. */
struct vitrine_unwind_search {
  __u64 rows; /* the page's first */
  __u64 at;   /* of those that it is narrowed to, the first: it does not begin behind the offset */
  __u64 last;
  __u64 offset;
};

#define VITRINE_UNWIND_SEARCH_STEPS (VITRINE_UNWIND_GRANULE_BITS + 1)

static inline __attribute__((always_inline)) void vitrine_unwind_search_begin(
    struct vitrine_unwind_search* search, const __u32* words, __u64 page, __u32 offset) {
  const __u32 granule = offset >> VITRINE_UNWIND_GRANULE_BITS;
  search->rows = page + VITRINE_UNWIND_PAGE_ROWS;
  search->at = vitrine_unwind_granule(words, page, granule);
  search->last = vitrine_unwind_granule(words, page, granule + 1);
  search->offset = offset;
}

/* One of VITRINE_UNWIND_SEARCH_STEPS, the first with `index` 0. */
static inline __attribute__((always_inline)) void vitrine_unwind_search_step(
    struct vitrine_unwind_search* search, const __u32* words, __u32 index) {
  const __u64 step = (1U << VITRINE_UNWIND_GRANULE_BITS) >> (index & 31), at = search->at;
  const __u64 beyond = vitrine_if_negative(search->last - at - step);
  const __u64 row = vitrine_unwind_word(words, search->rows + at + (step & ~beyond));
  const __u64 behind = vitrine_if_negative(search->offset - (row >> VITRINE_UNWIND_CODE_BITS));
  search->at = at + (step & ~beyond & ~behind);
}

/* The code of the row that was found. */
static inline __attribute__((always_inline)) __u32 vitrine_unwind_search_end(
    const struct vitrine_unwind_search* search, const __u32* words) {
  return vitrine_unwind_word(words, search->rows + search->at) & VITRINE_UNWIND_CODE_MASK;
}
