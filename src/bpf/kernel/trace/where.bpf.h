// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Conditions on fires (query/predicate.h).
#pragma once

#include "bpf/kernel/hash.bpf.h"
#include "bpf/kernel/trace/trace_state.bpf.h"

#define HASH_OF_CUT_TEXT 1

/// Hash of a captured string; 0 when there is none. HASH_OF_CUT_TEXT, which no other text has, if there was more of it
/// than is captured: it is equal to no text.
static __always_inline __u64 captured_hash(struct scratch* s, __u32 capture) {
  const __u64 at = s->text_at[capture & 31];
  if (s->state[capture & 31] != VITRINE_CAPTURED || !at) return 0;
  if (s->cut[capture & 31]) return HASH_OF_CUT_TEXT;
  return hash_text(piece_at(&s->room.out, at), s->text_length[capture & 31]);
}

struct where_walk {
  struct scratch* s;
  const struct vitrine_predicate* where;
  __s32 pid, tid; /* in the reader's pid namespace */
  __u64 truths;   /* the stack, its top in bit 0 */
};

static __always_inline int compares(__u64 left, const struct vitrine_test* test) {
  const __u64 right = test->operand;
  const int less = test->is_signed ? (__s64)left < (__s64)right : left < right;
  switch (test->comparison) {
    case VITRINE_EQ:
      return left == right;
    case VITRINE_NE:
      return left != right;
    case VITRINE_LT:
      return less;
    case VITRINE_LE:
      return less || left == right;
    case VITRINE_GT:
      return !less && left != right;
    default:
      return !less;
  }
}

static __always_inline __u64 comm_hash(void) {
  char comm[24] = {};
  bpf_get_current_comm(comm, 16);
  __u64 length = 0;
  for (; length < 16; ++length)
    if (!comm[length]) break;
  struct vitrine_hash_state state;
  vitrine_hash_begin(&state, &config.hash_key);
  const __u64* words = (const __u64*)comm;
  __u64 rest = words[0];
  if (length >= 8) {
    vitrine_hash_word(&state, words[0]);
    rest = words[1];
  }
  if (length & 7) rest &= (1ULL << (length & 7) * 8) - 1;
  const __u64 hash = vitrine_hash_end(&state, length & 7 ? rest : 0, length);
  return hash ? hash : 1;
}

static long run_test(__u32 index, void* context) {
  struct where_walk* walk = context;
  struct scratch* s = walk->s;
  const struct vitrine_test* test = &walk->where->tests[bounded(index, VITRINE_TESTS)];
  const __u64 truths = walk->truths;
  const __u32 at = test->index & 31;
  int truth = 0;
  switch (test->subject) {
    case VITRINE_AND:
      walk->truths = truths >> 2 << 1 | (truths & truths >> 1 & 1);
      return 0;
    case VITRINE_OR:
      walk->truths = truths >> 2 << 1 | ((truths | truths >> 1) & 1);
      return 0;
    case VITRINE_NOT:
      walk->truths = truths ^ 1;
      return 0;
    case VITRINE_ON_ARGUMENT:
      truth = s->state[at] == VITRINE_CAPTURED && compares(s->value[at], test);
      break;
    case VITRINE_ON_ARGUMENT_STRING: {
      const __u64 hash = captured_hash(s, at);
      truth = hash && compares(hash, test);
      break;
    }
    case VITRINE_ON_LABEL: {
      const __u64 hash = s->label[test->index & (VITRINE_SELECTED_LABELS - 1)];
      truth = hash && compares(hash, test);
      break;
    }
    case VITRINE_ON_PID:
      truth = compares((__u32)walk->pid, test);
      break;
    case VITRINE_ON_TID:
      truth = compares((__u32)walk->tid, test);
      break;
    case VITRINE_ON_COMM:
      truth = compares(comm_hash(), test);
      break;
  }
  walk->truths = truths << 1 | truth;
  return 0;
}

/// Whether the condition holds for what was captured.
VERIFIED_ALONE int holds(struct scratch* s, const struct vitrine_predicate* where, __s32 pid,
                         __s32 tid) {
  if (!s || !where) return 0;
  struct where_walk walk = {.s = s, .where = where, .pid = pid, .tid = tid};
  bpf_loop(where->count, run_test, &walk, 0);
  return walk.truths & 1;
}
