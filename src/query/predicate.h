/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A condition on a fired probe, compiled for the kernel: tests in postfix order over a stack of
 * truth values. Plain C, same layout in both. Strings are compared by a keyed hash, so that no test
 * needs more than 8 bytes (query/compile.hpp). A test of something that is not there is false,
 * whatever its comparison, VITRINE_NE too. */
#pragma once

#include <linux/types.h>

enum vitrine_subject {
  VITRINE_ON_ARGUMENT,        /* number in capture `index`; false when it could not be read */
  VITRINE_ON_ARGUMENT_STRING, /* hash of the string in capture `index`; 0: not there */
  VITRINE_ON_LABEL,           /* hash of the value of selected label `index`; 0: not set */
  VITRINE_ON_PID,
  VITRINE_ON_TID,
  VITRINE_ON_COMM, /* hash of the name up to its NUL */
  VITRINE_AND,     /* of the two truth values on top */
  VITRINE_OR,
  VITRINE_NOT,
};

enum vitrine_comparison { VITRINE_EQ, VITRINE_NE, VITRINE_LT, VITRINE_LE, VITRINE_GT, VITRINE_GE };

struct vitrine_test {
  __u8 subject;
  __u8 comparison;
  __u8 is_signed;
  __u8 index;
  __u32 reserved;
  __u64 operand; /* a number, or a hash */
};

#define VITRINE_TESTS 32 /* and so the deepest stack */

struct vitrine_predicate {
  __u32 count;         /* 0: always true */
  __u32 first_rejects; /* the condition is false where tests[0] is; the tracer fills it in */
  struct vitrine_test tests[VITRINE_TESTS];
};
