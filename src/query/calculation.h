/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Arithmetic on arguments, compiled for the kernel: steps in postfix order over a stack of 64-bit
 * integers. Plain C, same layout and same results in the kernel and in user space.
 *
 * Numbers are those of C with 64 bits: a result is unsigned if an operand is an unsigned 64-bit
 * number, else signed; it wraps; a shift has the type of what is shifted. Where C leaves a result
 * undefined: a shift by 64 or more, or by a negative number, shifts all bits out; the least number
 * divided by -1 is itself. A division by 0 has no result. */
#pragma once

#include <linux/types.h>

#include "../probe/operand.h"

enum vitrine_calculation {
  VITRINE_CALCULATE_PUSH, /* `operand` */
  VITRINE_CALCULATE_LOAD, /* operand.size bytes (1, 2, 4, 8) at the address on top, extended as
                             operand.flags has it */
  VITRINE_CALCULATE_NEGATE,
  VITRINE_CALCULATE_INVERT,
  VITRINE_CALCULATE_ADD, /* the rest: of the two numbers on top */
  VITRINE_CALCULATE_SUBTRACT,
  VITRINE_CALCULATE_MULTIPLY,
  VITRINE_CALCULATE_DIVIDE,
  VITRINE_CALCULATE_REMAINDER,
  VITRINE_CALCULATE_SHIFT_LEFT,
  VITRINE_CALCULATE_SHIFT_RIGHT,
  VITRINE_CALCULATE_AND,
  VITRINE_CALCULATE_XOR,
  VITRINE_CALCULATE_OR,
  VITRINE_CALCULATE_STORE, /* the number on top is the value of `capture`; empties the stack */
};

struct vitrine_calculation_step {
  __u8 kind;
  __u8 is_signed; /* how DIVIDE, REMAINDER and SHIFT_RIGHT take their operands */
  __u8 capture;   /* STORE */
  __u8 reserved;
  __u32 reserved2;
  struct vitrine_operand operand; /* PUSH, LOAD */
};

#define VITRINE_CALCULATION_STEPS 48 /* of all captures of one site */
#define VITRINE_CALCULATION_DEPTH 8  /* most numbers on the stack */

static inline __attribute__((always_inline)) __u64 vitrine_magnitude(__u64 number, int is_signed) {
  return is_signed && (__s64)number < 0 ? 0 - number : number;
}

/* Division by magnitudes: BPF has no signed one before Linux 6.6. `right` is not 0. */
static inline __attribute__((always_inline)) __u64 vitrine_divide(__u64 left, __u64 right,
                                                                  int is_signed, int remainder) {
  const __u64 above = vitrine_magnitude(left, is_signed);
  const __u64 below = vitrine_magnitude(right, is_signed);
  const __u64 result = remainder ? above % below : above / below;
  const int left_negative = is_signed && (__s64)left < 0;
  const int right_negative = is_signed && (__s64)right < 0;
  const int negative = remainder ? left_negative : left_negative != right_negative;
  return negative ? 0 - result : result;
}

static inline __attribute__((always_inline)) __u64 vitrine_shift_right(__u64 left, __u64 right,
                                                                       int is_signed) {
  if (is_signed) return (__u64)((__s64)left >> (right > 63 ? 63 : right));
  return right > 63 ? 0 : left >> right;
}

/* Of one number (`right` is it) or two. Returns 0, or 1 when there is no result: then it is 0. */
static inline __attribute__((always_inline)) int vitrine_calculate(__u32 kind, int is_signed,
                                                                   __u64 left, __u64 right,
                                                                   __u64* result) {
  *result = 0;
  switch (kind) {
    case VITRINE_CALCULATE_NEGATE:
      *result = 0 - right;
      return 0;
    case VITRINE_CALCULATE_INVERT:
      *result = ~right;
      return 0;
    case VITRINE_CALCULATE_ADD:
      *result = left + right;
      return 0;
    case VITRINE_CALCULATE_SUBTRACT:
      *result = left - right;
      return 0;
    case VITRINE_CALCULATE_MULTIPLY:
      *result = left * right;
      return 0;
    case VITRINE_CALCULATE_DIVIDE:
    case VITRINE_CALCULATE_REMAINDER:
      if (right == 0) return 1;
      *result = vitrine_divide(left, right, is_signed, kind == VITRINE_CALCULATE_REMAINDER);
      return 0;
    case VITRINE_CALCULATE_SHIFT_LEFT:
      *result = right > 63 ? 0 : left << right;
      return 0;
    case VITRINE_CALCULATE_SHIFT_RIGHT:
      *result = vitrine_shift_right(left, right, is_signed);
      return 0;
    case VITRINE_CALCULATE_AND:
      *result = left & right;
      return 0;
    case VITRINE_CALCULATE_XOR:
      *result = left ^ right;
      return 0;
    case VITRINE_CALCULATE_OR:
      *result = left | right;
      return 0;
    default:
      return 1;
  }
}
