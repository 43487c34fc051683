/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of a probe as operands of asm, and the string in its note that records where they are. */
#ifndef VITRINE_DETAIL_SDT_ARGUMENTS_H
#define VITRINE_DETAIL_SDT_ARGUMENTS_H

#pragma GCC system_header

#include "sdt_note.h"

/* Where arguments may be (docs/formats/sdt.md, "Argument constraints"). clang puts every argument
 * into memory that may be there, so it must not be; gcc for aarch64 would use addresses relative to
 * a page, which no reader can follow. */
#if defined STAP_SDT_ARG_CONSTRAINT
#define VITRINE_DETAIL_CONSTRAINT VITRINE_DETAIL_STRING(STAP_SDT_ARG_CONSTRAINT)
#elif defined __powerpc__
#define VITRINE_DETAIL_CONSTRAINT "nZr"
#elif defined __arm__
#define VITRINE_DETAIL_CONSTRAINT "g"
#elif defined __loongarch__
#define VITRINE_DETAIL_CONSTRAINT "nmr"
#elif defined __aarch64__ || defined __ia64__ || (defined __clang__ && !defined __i386__)
/* <sys/sdt.h> has "nor" with clang on x86-64: see there. */
#if defined VITRINE_DETAIL_COMPAT && defined __x86_64__
#define VITRINE_DETAIL_CONSTRAINT "nor"
#else
#define VITRINE_DETAIL_CONSTRAINT "nr"
#endif
#else
#define VITRINE_DETAIL_CONSTRAINT "nor"
#endif

/* How an operand is printed. */
#if defined __powerpc__
#define VITRINE_DETAIL_OPERAND(id) "%I[" id "]%[" id "]"
#elif defined __i386__
#define VITRINE_DETAIL_OPERAND(id) \
  "%k[" id "]" /* the 32-bit register whatever the size (gcc PR 80115) */
#else
#define VITRINE_DETAIL_OPERAND(id) "%[" id "]"
#endif

/* Does not count as many instructions as it has lines when the compiler thinks about inlining. */
#if defined __clang__ || __GNUC__ >= 9
#define VITRINE_DETAIL_ASM_STATEMENT __asm__ __volatile__ __inline__
#else
#define VITRINE_DETAIL_ASM_STATEMENT __asm__ __volatile__
#endif

#ifdef __cplusplus
#include "sdt_types.hpp"
#else
#include "sdt_types.h"
#endif

/* The kinds of arguments (those of the typed note, four bits each) reach the assembler as two numbers
 * of six arguments, so that 32 bits do. VITRINE_DETAIL_KINDS(word, kind, first, a, b, …) adds up kind(a) … */
#define VITRINE_DETAIL_ASM_KIND(n) "(" VITRINE_DETAIL_ASM_KIND_##n " & 15)"
#define VITRINE_DETAIL_ASM_KIND_1 "%c[vitrine_k0]"
#define VITRINE_DETAIL_ASM_KIND_2 "(%c[vitrine_k0] >> 4)"
#define VITRINE_DETAIL_ASM_KIND_3 "(%c[vitrine_k0] >> 8)"
#define VITRINE_DETAIL_ASM_KIND_4 "(%c[vitrine_k0] >> 12)"
#define VITRINE_DETAIL_ASM_KIND_5 "(%c[vitrine_k0] >> 16)"
#define VITRINE_DETAIL_ASM_KIND_6 "(%c[vitrine_k0] >> 20)"
#define VITRINE_DETAIL_ASM_KIND_7 "%c[vitrine_k1]"
#define VITRINE_DETAIL_ASM_KIND_8 "(%c[vitrine_k1] >> 4)"
#define VITRINE_DETAIL_ASM_KIND_9 "(%c[vitrine_k1] >> 8)"
#define VITRINE_DETAIL_ASM_KIND_10 "(%c[vitrine_k1] >> 12)"
#define VITRINE_DETAIL_ASM_KIND_11 "(%c[vitrine_k1] >> 16)"
#define VITRINE_DETAIL_ASM_KIND_12 "(%c[vitrine_k1] >> 20)"
#define VITRINE_DETAIL_KIND_BITS(word, n, kind) \
  (((n) > 6) == (word) ? (kind) << ((n)-1) % 6 * 4 : 0)

/* "-4@%eax" and the like for argument n: its size, negative if it has a sign, is an operand. */
#define VITRINE_DETAIL_SIZE_TEXT(n) ".ascii \"%c[vitrine_s" #n "]\"\n"
#define VITRINE_DETAIL_VALUE_TEXT(n) ".ascii \"@" VITRINE_DETAIL_OPERAND("vitrine_a" #n) "\"\n"
#define VITRINE_DETAIL_ARGUMENT_TEXT(n)              \
  VITRINE_DETAIL_SIZE_TEXT(n)                        \
  ".if " VITRINE_DETAIL_ASM_KIND(n) " == 2\n"        \
                                    ".ascii \"f\"\n" \
                                    ".endif\n" VITRINE_DETAIL_VALUE_TEXT(n)
#define VITRINE_DETAIL_BLANK() ".ascii \" \"\n"
#define VITRINE_DETAIL_ARGUMENT(n, x)                \
  [vitrine_s##n] "n"(VITRINE_DETAIL_SIGNED_SIZE(x)), \
      [vitrine_a##n] VITRINE_DETAIL_CONSTRAINT(VITRINE_DETAIL_VALUE(x))

/* clang-format off */
/* The argument string and the operands for plain arguments: of (0, a, b, …). */
#define VITRINE_DETAIL_PLAIN_TEXT(...) VITRINE_DETAIL_MAP(VITRINE_DETAIL_PLAIN_TEXT_OF, VITRINE_DETAIL_BLANK, __VA_ARGS__)
#define VITRINE_DETAIL_PLAIN_TEXT_OF(zero, n, x) VITRINE_DETAIL_ARGUMENT_TEXT(n)
#define VITRINE_DETAIL_PLAIN_OPERANDS(...) \
  [vitrine_k0] "n"(0 VITRINE_DETAIL_MAP(VITRINE_DETAIL_PLAIN_LOW, VITRINE_DETAIL_NOTHING, __VA_ARGS__)), \
  [vitrine_k1] "n"(0 VITRINE_DETAIL_MAP(VITRINE_DETAIL_PLAIN_HIGH, VITRINE_DETAIL_NOTHING, __VA_ARGS__)) \
  VITRINE_DETAIL_MAP(VITRINE_DETAIL_PLAIN_OPERAND, VITRINE_DETAIL_NOTHING, __VA_ARGS__)
#define VITRINE_DETAIL_PLAIN_LOW(zero, n, x) + VITRINE_DETAIL_KIND_BITS(0, n, 2 * VITRINE_DETAIL_IS_FLOATING(x))
#define VITRINE_DETAIL_PLAIN_HIGH(zero, n, x) + VITRINE_DETAIL_KIND_BITS(1, n, 2 * VITRINE_DETAIL_IS_FLOATING(x))
#define VITRINE_DETAIL_PLAIN_OPERAND(zero, n, x) , VITRINE_DETAIL_ARGUMENT(n, x)
/* clang-format on */

#endif
