/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the tracing program in the kernel and its loader tell each other (see wire.h). */
#pragma once

#include "../probe/operand.h"
#include "../query/predicate.h"
#include "wire.h"

#define VITRINE_CAPTURES 24        /* arguments of one site; the header's macros reach 12 */
#define VITRINE_SELECTED_LABELS 4  /* keys of --by and --where together */
#define VITRINE_GROUP_ARGUMENTS 4  /* arguments of --by */
#define VITRINE_CAPTURE_BYTES 4096 /* most of one string */

enum vitrine_capture_form {
  VITRINE_CAPTURE_VALUE,
  VITRINE_CAPTURE_STRING,   /* the operand is the address of NUL-terminated bytes */
  VITRINE_CAPTURE_BYTES_AT, /* the operand is an address, `length` the number of bytes */
};

struct vitrine_capture {
  struct vitrine_operand operand; /* VITRINE_NO_OPERAND: cannot be decoded; not captured */
  struct vitrine_operand length;
  __u32 form;
  __u32 most; /* bytes, at most VITRINE_CAPTURE_BYTES */
};

/* What a fire of a site leads to. */
enum vitrine_role {
  VITRINE_EMIT,          /* an event in the ring buffer */
  VITRINE_COUNT,         /* the rest: added up in the kernel */
  VITRINE_HISTOGRAM,     /* of capture `value` */
  VITRINE_SUM,           /* of capture `value` */
  VITRINE_LATENCY_START, /* remembers the time, by thread or by capture `match` */
  VITRINE_LATENCY_END,
};

#define VITRINE_NO_CAPTURE 255

/* One probe with one argument list: many sites share it. The cookie of a site is
 * (program index << 32) | site number. */
struct vitrine_site_program {
  __u32 probe; /* user space's number of it */
  __u32 role;
  __u8 captures;
  __u8 value;  /* capture, or VITRINE_NO_CAPTURE */
  __u8 match;  /* capture, or VITRINE_NO_CAPTURE: by thread */
  __u8 groups; /* how many of `group` */
  __u8 group[VITRINE_GROUP_ARGUMENTS];
  struct vitrine_capture capture[VITRINE_CAPTURES];
  struct vitrine_predicate where;
};
