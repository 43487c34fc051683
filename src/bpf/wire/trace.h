/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the tracing program in the kernel and its loader exchange (see wire.h). */
#pragma once

#include "bpf/wire/event.h"
#include "probe/operand.h"
#include "query/buckets.h"
#include "query/calculation.h"
#include "query/predicate.h"

#define VITRINE_CAPTURES 24        /* arguments of one site; the header's macros reach 12 */
#define VITRINE_GROUP_ARGUMENTS 4  /* arguments of --by */
#define VITRINE_CAPTURE_BYTES 4096 /* most of one string */
#define VITRINE_KEY_BYTES 64       /* most of a selected label's key */
#define VITRINE_KEPT_BYTES 1024    /* most of the arguments of one start that are kept to its end */

/* ---- What is asked for ---- */

enum vitrine_capture_form {
  VITRINE_CAPTURE_VALUE,
  VITRINE_CAPTURE_STRING,    /* the operand is the address of NUL-terminated bytes */
  VITRINE_CAPTURE_BYTES_AT,  /* the operand is an address, `length` the number of bytes */
  VITRINE_CAPTURE_STRING_AT, /* the same, but a NUL ends it before */
};

struct vitrine_capture {
  struct vitrine_operand operand; /* VITRINE_NO_OPERAND: cannot be decoded; not captured */
  struct vitrine_operand length;
  __u16 form;
  __u8 calculated; /* the value is that of the program's steps; `operand` has its size and flags */
  __u8 reserved;
  __u32 most; /* bytes, at most VITRINE_CAPTURE_BYTES */
};

/* What a fire of a site leads to. */
enum vitrine_role {
  VITRINE_EMIT,          /* an event in the ring buffer */
  VITRINE_COUNT,         /* the rest: added up in the kernel */
  VITRINE_HISTOGRAM,     /* of capture `value` */
  VITRINE_SUM,           /* of capture `value` */
  VITRINE_LATENCY_START, /* remembers the time, by thread or by capture `match` of the process */
  VITRINE_LATENCY_END,   /* a histogram of nanoseconds; groups by its own labels and arguments */
  VITRINE_SLOW_START,    /* as LATENCY_START, and its captures */
  VITRINE_SLOW_END,      /* an event if it took longer than `slower_ns`, with those of its start */
};

#define VITRINE_NO_CAPTURE 255

/* One probe with one argument list: many sites share it. */
struct vitrine_site_program {
  __u32 probe; /* user space's number of it: reductions have rows of their own for each number */
  __u32 pair;  /* the starts and the ends of a latency have the same */
  __u32 role;
  __u8 captures;
  __u8 value;                          /* capture, or VITRINE_NO_CAPTURE */
  __u8 match;                          /* capture, or VITRINE_NO_CAPTURE: by thread */
  __u8 groups;                         /* how many of `group` */
  __u8 group[VITRINE_GROUP_ARGUMENTS]; /* captures */
  __u8 group_labels;                   /* bit i: selected label i is part of the group */
  __u8 needed_labels;                  /* those, and the ones of `where`; the tracer fills it in */
  __u8 not_tested;                     /* how many of the last captures `where` does not need */
  __u8 reserved;
  __u32 steps; /* how many of `step` */
  struct vitrine_capture capture[VITRINE_CAPTURES];
  struct vitrine_predicate where;
  struct vitrine_calculation_step step[VITRINE_CALCULATION_STEPS];
};

/* Programs are in tables of so many: those of a trace of few probes take no room for more. */
#define VITRINE_TABLE_PROGRAMS 256
#define VITRINE_TABLES 4096

/* A site's cookie: (index of its program << 32) | the caller's number of the site, and: */
#define VITRINE_COOKIE_SECOND_BYTE (1ULL << 63) /* the uprobe is one byte behind the site */

/* Cookie of an is-enabled check with its result where its argument points: the argument,
 * of 4 bytes, is on the stack, so many bytes (8 bits) above the stack pointer. */
#define VITRINE_ENABLED_ON_STACK (1ULL << 32)

/* Keys whose values are looked up in the kernel, for --by and --where. */
enum vitrine_selected_kind {
  VITRINE_SELECT_NONE,
  VITRINE_SELECT_LABEL,    /* by `key`; in records, by vitrine_definition.selected_key */
  VITRINE_SELECT_TRACE_ID, /* 16 bytes of a thread record */
  VITRINE_SELECT_SPAN_ID,  /* 8 */
};

struct vitrine_selected_label {
  __u32 kind;
  __u16 length;
  __u16 is_grouped; /* fires are added up by it: its texts are kept */
  __u8 key[VITRINE_KEY_BYTES];
};

struct vitrine_trace_config {
  __u32 only_known; /* processes without a target, and not started by one, are passed over */
  __u64 slower_ns;  /* of VITRINE_SLOW_END */
  __u64 changes;    /* of the tables of processes: begun so far << 32 | under way */
  __u64 from_ns;    /* fires before are passed over, but for starts of pairs (CLOCK_MONOTONIC) */
  __u64 until_ns;   /* fires from then on are passed over; 0: there is no end */
  __u32 selected_labels;
  struct vitrine_selected_label selected[VITRINE_SELECTED_LABELS];
};

/* ---- What it reports: records of the ring buffer ---- */

enum vitrine_record_kind {
  VITRINE_RECORD_FIRE,
  VITRINE_RECORD_PROCESS, /* no fire: a process that was forked from a known one has fired a probe
                             whose condition or group wants its labels. The head alone. */
  VITRINE_RECORD_LATENCY, /* the end of a latency that is for the reader to add up: `address` is the
                             time of its start */
  VITRINE_RECORD_PAIR,    /* of VITRINE_SLOW_END: a vitrine_pair follows the captures */
};

/* Followed by `captures` vitrine_captured, a vitrine_pair where there is one, `header.sets`
 * vitrine_fire_set, and `stack_bytes` of return addresses, each with its own bytes, all padded to multiples of 8. */
struct vitrine_fire {
  struct vitrine_event_header event; /* of enum vitrine_record_kind */
  __u64 address;                     /* of the site, where it fired */
  __u32 program;                     /* of the site's cookie */
  __u32 site;
  __u32 captures;
  __u32 stack_bytes;
  __u64 cgroup; /* id in the unified hierarchy, of events that carry origins */
  __u32 uid;    /* in the initial namespace, likewise */
  __u32 reserved;
};

/* The start of a pair, followed by `bytes` of its vitrine_captured and their bytes. */
struct vitrine_pair {
  __u64 began;   /* CLOCK_MONOTONIC */
  __u32 program; /* of its site's cookie */
  __u32 site;
  __u32 captures;
  __u32 bytes;
  __u32 cut; /* its captures had no room */
  __u32 reserved;
};

/* A start that waits for its end. */
struct vitrine_kept_start {
  struct vitrine_pair pair;
  __u64 born; /* when its thread began, or with a match its process: another one gets the number */
  __u8 bytes[VITRINE_KEPT_BYTES];
};

enum vitrine_captured_state {
  VITRINE_CAPTURED,
  VITRINE_CAPTURE_NO_OPERAND,  /* it was not asked for */
  VITRINE_CAPTURE_UNAVAILABLE, /* in a register that the kernel does not show us */
  VITRINE_CAPTURE_UNREADABLE,  /* memory could not be read: `value` is the address */
  VITRINE_CAPTURE_NO_ROOM,     /* the record was full */
  VITRINE_CAPTURE_DIVIDED_BY_0,
};

/* One capture, followed by `bytes` bytes and padding to a multiple of 8. */
struct vitrine_captured {
  __u64 value; /* a value of at most 8 bytes, extended to 64 bits; else the address of the bytes */
  __u32 bytes; /* of a string without its NUL, or of a value of more than 8 bytes */
  __u8 state;
  __u8 cut; /* there was more */
  __u16 reserved;
};

/* ---- What is added up ---- */

/* Label parts are hashes of values (query/compile.hpp), 0: not set. Argument parts are numbers,
 * or hashes of captured strings. */
struct vitrine_group {
  __u64 label[VITRINE_SELECTED_LABELS];
  __u64 argument[VITRINE_GROUP_ARGUMENTS];
  __u32 probe;
  __u32 others; /* 1: no group, but all of this probe that had no room; the parts are 0 */
};

#define VITRINE_NULL_TEXT 2 /* argument part of a string whose address is 0 */

struct vitrine_aggregate {
  __u64 count;
  __u64 sum;      /* the low half of 128 bits */
  __u64 sum_high; /* a reader may see it one carry late */
  __u64 least;
  __u64 most; /* of signed values: least and most by signed comparison */
  __u64 hash; /* of the group, for its buckets; 0 until a fire on this CPU has wanted it */
};

/* A bucket of one group: its counts are in a map of their own, as most stay empty. */
struct vitrine_group_bucket {
  __u64 group; /* keyed hash of the vitrine_group */
  __s32 bucket;
  __u32 reserved;
};

/* The text behind a hash in a group. */
struct vitrine_name {
  __u32 length; /* kept here */
  __u32 whole;  /* the value's own, or more than `length`: only a beginning was captured */
  __u8 bytes[VITRINE_NAME_BYTES];
};

/* How often things happened, per CPU. */
enum vitrine_trace_counter {
  VITRINE_TRACE_FIRES,          /* of probes that are emitted, after the condition */
  VITRINE_TRACE_LOST,           /* of those: no room in the ring buffer */
  VITRINE_TRACE_BUSY,           /* fires of any role lost: too many at once on one CPU */
  VITRINE_TRACE_CUT,            /* pieces of records that had no room in theirs */
  VITRINE_TRACE_FAULTS,         /* pieces of labels that were not resident */
  VITRINE_TRACE_UNKNOWN,        /* fires of processes of which nothing was known yet */
  VITRINE_TRACE_GROUPS_FULL,    /* fires added up without their group: no room for another */
  VITRINE_TRACE_BUCKETS_FULL,   /* values not in a histogram: no room for another bucket */
  VITRINE_TRACE_NAMES_FULL,     /* fires of groups whose text had no room */
  VITRINE_TRACE_NAMES_CUT,      /* texts of groups of which only a beginning is kept */
  VITRINE_TRACE_UNREADABLE,     /* fires not added up: the value could not be read, or what
                                   matches is only the beginning of a text */
  VITRINE_TRACE_STARTS,         /* of latencies */
  VITRINE_TRACE_STARTS_ENDED,   /* of those: forgotten at their ends */
  VITRINE_TRACE_STARTS_LOST,    /* of those: replaced by another, or without room */
  VITRINE_TRACE_ENDS_UNMATCHED, /* of latencies: no start is known */
  VITRINE_TRACE_UNREAD_LABELS, /* fires that the kernel's part of the condition rejected, some of whose labels
                                   could not be read */
  VITRINE_TRACE_COUNTERS,
};
