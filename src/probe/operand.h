/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Where the value of a probe's argument is, in a form that user space and the kernel both evaluate.
 * Every operand of docs/formats/sdt.md comes down to this one shape. Plain C, same layout in
 * both. */
#pragma once

#include <linux/types.h>

enum vitrine_operand_kind {
  VITRINE_NO_OPERAND,
  VITRINE_CONSTANT, /* `displacement` itself; the address of a symbol: relative to `base`, which then
                       is VITRINE_PROBE_ADDRESS. Of more than 8 bytes: sign-extended */
  VITRINE_REGISTER, /* register `base` >> `shift`; of more than a word: `index` has the high half */
  VITRINE_MEMORY,   /* `size` bytes at base + extend(index) << scale + displacement */
};

/* Registers are numbered as 8-byte words of the user's pt_regs (x86-64: r15 0 … ss 20; aarch64:
 * x0..x30, sp 31, pc 32, pstate 33); an i386 program has the numbers of x86-64; others
 * their general registers from 0, and are decoded, not traced. These are none of those: */
#define VITRINE_NO_REGISTER 63
#define VITRINE_THREAD_POINTER 62 /* fs base, tpidr_el0 */
#define VITRINE_PROBE_ADDRESS \
  61 /* where the probe fired: symbols are relative to it, so that the
                                     load bias need not be known */

enum vitrine_extend { /* of `index`, before the shift */
                      VITRINE_EXTEND_NONE,
                      VITRINE_EXTEND_U32,
                      VITRINE_EXTEND_S32,
};

#define VITRINE_ADDRESS_32 \
  1 /* flag: the effective address is cut to 32 bits; each register of a pair has 4 bytes */
#define VITRINE_SIGNED 2 /* flag: sign-extend the value from `size` */
#define VITRINE_FLOAT 4  /* flag: the bytes are a floating-point number (10: x87, 16: binary128) */
#define VITRINE_CUT 8    /* flag: the value has more bytes than `size` */

#define VITRINE_OPERAND_BYTES 64 /* most of one value: larger structures are cut and marked */

struct vitrine_operand {
  __u8 kind;
  __u8 flags;
  __u8 size; /* bytes of the value: 1 to VITRINE_OPERAND_BYTES */
  __u8 shift;
  __u8 base;
  __u8 index;
  __u8 scale; /* a shift: 0 to 4 */
  __u8 extend;
  __u64 displacement; /* signed where it is one: arithmetic wraps */
};
