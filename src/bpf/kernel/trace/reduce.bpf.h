// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Fires that are added up: counts, sums, histograms and latencies, in groups.
#pragma once

#include "bpf/kernel/trace/names.bpf.h"
#include "bpf/kernel/trace/where.bpf.h"

/// Of fires without groups, and of those whose group has no room, by program.
struct aggregate_table {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, VITRINE_TABLE_PROGRAMS);
  __uint(key_size, sizeof(__u32));
  __uint(value_size, sizeof(struct vitrine_aggregate));
};

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
  __uint(max_entries, VITRINE_TABLES);
  __type(key, __u32);
  __array(values, struct aggregate_table);
} ungrouped SEC(".maps");

static __always_inline struct vitrine_aggregate* ungrouped_of(__u32 program) {
  const __u32 number = program / VITRINE_TABLE_PROGRAMS;
  void* table = bpf_map_lookup_elem(&ungrouped, &number);
  if (!table) return 0;
  const __u32 place = program % VITRINE_TABLE_PROGRAMS;
  return bpf_map_lookup_elem(table, &place);
}

/// Zeros add nothing, so a CPU's part needs no making.
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_HASH);
  __uint(max_entries, 1);
  __type(key, struct vitrine_group);
  __type(value, struct vitrine_aggregate);
} groups SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1);
  __type(key, struct vitrine_group_bucket);
  __type(value, __u64);
} buckets SEC(".maps");

struct start_key {
  __u64 match; /* a captured value, or the thread */
  __u32 tgid;
  __u32 pair;
};

struct start {
  __u64 began; /* 0: it is being taken away */
  __u64 born;  /* as in a vitrine_kept_start */
};

/// Of an operation that never ends its start stays here: the oldest make room, or there would be none
/// in the end.
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 1);
  __type(key, struct start_key);
  __type(value, struct start);
} starts SEC(".maps");

static __always_inline void count_plainly(__u32 program) {
  struct vitrine_aggregate* sum = ungrouped_of(program);
  if (sum) __sync_fetch_and_add(&sum->count, 1);
}

/// By number, or by text.
static __always_inline __u64 group_part(struct scratch* s,
                                        const struct vitrine_site_program* program, __u32 capture) {
  if (capture >= VITRINE_CAPTURES) return 0;
  const int is_text = program->capture[capture].form != VITRINE_CAPTURE_VALUE;
  const __u32 state = s->state[capture & 31];
  if (is_text && state == VITRINE_CAPTURE_UNREADABLE && s->value[capture & 31] == 0)
    return VITRINE_NULL_TEXT;
  if (state != VITRINE_CAPTURED) return 0;
  if (!is_text) return s->value[capture & 31];
  const __u64 at = s->text_at[capture & 31];
  if (!at) return 0;
  return name_of_copy(s, offsetof(struct scratch, room.out.bytes) + at,
                      s->text_length[capture & 31], s->cut[capture & 31], 1);
}

static __always_inline int has_groups(const struct vitrine_site_program* program) {
  return program->groups != 0 || program->group_labels != 0;
}

/// Into s->group. Without a loop: one over arguments is laid out so that Linux 6.1 refuses it
/// (tests/bpf/loops.py).
VERIFIED_ALONE int fill_group(struct scratch* s, const struct vitrine_site_program* program) {
  if (!s || !program) return 0;
  struct vitrine_group* group = &s->group;
  group->probe = program->probe;
  group->others = 0;
#pragma unroll
  for (int i = 0; i < VITRINE_SELECTED_LABELS; ++i)
    group->label[i] = program->group_labels >> i & 1 ? s->label[i] : 0;
#pragma unroll
  for (int i = 0; i < VITRINE_GROUP_ARGUMENTS; ++i)
    group->argument[i] = i < program->groups ? group_part(s, program, program->group[i]) : 0;
  return 1;
}

/// Of s->group.
static __always_inline struct vitrine_aggregate* find_aggregate(const struct scratch* s) {
  const struct scratch* element = as_element(s);
  return element ? bpf_map_lookup_elem(&groups, &element->group) : 0;
}

static __always_inline struct vitrine_aggregate* aggregate_of(const struct scratch* s) {
  struct vitrine_aggregate* found = find_aggregate(s);
  if (found) return found;
  const struct vitrine_aggregate none = {};
  const struct scratch* element = as_element(s);
  if (element) bpf_map_update_elem(&groups, &element->group, &none, BPF_NOEXIST);
  return find_aggregate(s);
}

#define RAISE_TRIES 8 /* each lost one is another fire on this CPU */

static __always_inline void raise(__u64* most, __u64 value) {
  for (int i = 0; i < RAISE_TRIES; ++i) {
    const __u64 seen = *(volatile __u64*)most;
    if (value <= seen || __sync_val_compare_and_swap(most, seen, value) == seen) return;
  }
}

VERIFIED_ALONE __u64 hash_of_group(const struct vitrine_group* group) {
  if (!group) return 0;
  struct vitrine_hash_state state;
  vitrine_hash_begin(&state, &config.hash_key);
  const __u64* words = (const __u64*)group;
#pragma unroll
  for (__u32 i = 0; i < sizeof *group / 8; ++i) vitrine_hash_word(&state, words[i]);
  return vitrine_hash_end(&state, 0, sizeof *group);
}

/// `sum`: of the group that this fire belongs to, with its hash.
static __always_inline void add_to_bucket(struct vitrine_aggregate* sum, __s32 number) {
  const struct vitrine_group_bucket bucket = {.group = sum->hash, .bucket = number};
  __u64* value = bpf_map_lookup_elem(&buckets, &bucket);
  if (!value) {
    const __u64 none = 0;
    bpf_map_update_elem(&buckets, &bucket, &none, BPF_NOEXIST);
    value = bpf_map_lookup_elem(&buckets, &bucket);
  }
  if (value)
    __sync_fetch_and_add(value, 1);
  else
    count(VITRINE_TRACE_BUCKETS_FULL, 1);
}

/// What the fires of groups that have no room are added to.
static __always_inline struct vitrine_aggregate* others_of(
    struct scratch* s, const struct vitrine_site_program* program, __u32 index) {
  const struct vitrine_group others = {.probe = program->probe, .others = 1};
  s->group = others;
  return ungrouped_of(index);
}

/// In 128 bits, which two words make up.
static __always_inline void add_to_sum(struct vitrine_aggregate* sum, __u64 value, int is_signed) {
  const __u64 before = __sync_fetch_and_add(&sum->sum, value);
  const __u64 carry = before + value < before;
  const __u64 high = is_signed && (__s64)value < 0 ? carry - 1 : carry;
  if (high) __sync_fetch_and_add(&sum->sum_high, high);
}

static __always_inline int has_buckets(const struct vitrine_site_program* program) {
  return program->role != VITRINE_COUNT && program->role != VITRINE_SUM;
}

/// One fire; `value` unless it is counted. With buckets `sum` has its hash.
static __always_inline void add_fire(struct vitrine_aggregate* sum,
                                     const struct vitrine_site_program* program, __u64 value,
                                     int is_signed) {
  __sync_fetch_and_add(&sum->count, 1);
  if (program->role == VITRINE_COUNT) return;
  const __u64 ordered = is_signed ? value ^ 1ULL << 63 : value;
  add_to_sum(sum, value, is_signed);
  raise(&sum->most, ordered);
  raise(&sum->least, ~ordered);
  if (has_buckets(program)) add_to_bucket(sum, vitrine_bucket_of(value, is_signed));
}

/// Adds one fire of program `index` to its group; `value` unless it is counted.
static __always_inline void add_up(struct scratch* s, const struct vitrine_site_program* program,
                                   __u32 index, __u64 value, int is_signed) {
  struct vitrine_aggregate* sum;
  if (has_groups(program)) {
    fill_group(s, program);
    sum = aggregate_of(s);
  } else {
    sum = ungrouped_of(index);
  }
  if (!sum) {
    count(VITRINE_TRACE_GROUPS_FULL, 1);
    sum = others_of(s, program, index);
    if (!sum) return;
  }
  if (has_buckets(program) && !sum->hash) {
    if (!has_groups(program)) fill_group(s, program);
    sum->hash = hash_of_group(&s->group);
  }
  add_fire(sum, program, value, is_signed);
}

/// Adds one fire with a value of program `index`, which has no groups. False: that takes more than its sum.
static __always_inline int add_plainly(const struct vitrine_site_program* program, __u32 index,
                                       __u64 value, int is_signed) {
  struct vitrine_aggregate* sum = ungrouped_of(index);
  if (!sum || (has_buckets(program) && !sum->hash)) return 0;
  add_fire(sum, program, value, is_signed);
  return 1;
}

/// False: what matches could not be read, or not as a whole, so it may be another's.
static __always_inline int start_key_of(struct scratch* s,
                                        const struct vitrine_site_program* program,
                                        struct start_key* key) {
  const __u64 pid_tgid = bpf_get_current_pid_tgid();
  key->match = (__u32)pid_tgid;
  key->tgid = pid_tgid >> 32;
  key->pair = program->pair;
  const __u32 match = program->match;
  if (match >= VITRINE_CAPTURES) return 1;
  if (s->state[match & 31] != VITRINE_CAPTURED) return 0;
  if (program->capture[match].form == VITRINE_CAPTURE_VALUE) {
    key->match = s->value[match & 31];
    return 1;
  }
  // Only so much of a text is hashed.
  if (s->cut[match & 31] || s->text_length[match & 31] > VITRINE_NAME_BYTES) return 0;
  key->match = captured_hash(s, match);
  return 1;
}

// A map deletes by key, not by value: of a start that another replaced since an end has read it, the end would delete
// the other. So a program that takes a start away sets its `began` to 0 first, if that is still what it has read, and
// a new start is added only where there is none: until the one with 0 is deleted, there is no other to delete.

#define START_TRIES 4 /* each lost one is a start or an end of the same key on another CPU */

static __always_inline int claim_start(volatile __u64* began, __u64 seen) {
  return seen && __sync_val_compare_and_swap(began, seen, 0) == seen;
}

/// Takes away the start of a key. `born`: as in it; 0: whatever it is. Returns when it began; 0: there is none.
VERIFIED_ALONE __u64 take_away(const struct start_key* of, __u64 born) {
  if (!of) return 0;
  const struct start_key own = *of;  // up to Linux 6.1 a key is no argument of a function
  const struct start_key* const key = &own;
  for (int i = 0; i < START_TRIES; ++i) {
    const volatile struct start* start = bpf_map_lookup_elem(&starts, key);
    if (!start) return 0;
    const struct start read = {.began = start->began, .born = start->born};
    // Its place may have been given to another key's while it was read.
    volatile struct start* again = bpf_map_lookup_elem(&starts, key);
    if (!again || again->began != read.began || again->born != read.born) continue;
    if (born && read.born != born) return 0;
    if (!claim_start(&again->began, read.began)) continue;
    bpf_map_delete_elem(&starts, key);
    return read.began;
  }
  return 0;
}

/// Ends the latency that this fire is the end of. `born`: as in its start. False: it has no start, which is
/// counted.
static __always_inline int take_start(struct scratch* s, const struct vitrine_site_program* program,
                                      __u64 born, __u64* began) {
  struct start_key key = {};
  if (!start_key_of(s, program, &key)) {
    count(VITRINE_TRACE_UNREADABLE, 1);
    return 0;
  }
  *began = take_away(&key, born);
  count(*began ? VITRINE_TRACE_STARTS_ENDED : VITRINE_TRACE_ENDS_UNMATCHED, 1);
  return *began != 0;
}

static __always_inline void note_start(struct scratch* s,
                                       const struct vitrine_site_program* program, __u64 now,
                                       __u64 born) {
  struct start_key key = {};
  if (!start_key_of(s, program, &key)) {
    count(VITRINE_TRACE_UNREADABLE, 1);
    return;
  }
  const struct start start = {.began = now, .born = born};
  count(VITRINE_TRACE_STARTS, 1);
  for (int i = 0; i < START_TRIES; ++i) {
    if (bpf_map_update_elem(&starts, &key, &start, BPF_NOEXIST) == 0) return;
    if (take_away(&key, 0)) count(VITRINE_TRACE_STARTS_LOST, 1);
  }
  count(VITRINE_TRACE_STARTS_LOST, 1);
}

/// `index`: of the program. `born`: of the start or the end of a latency.
VERIFIED_ALONE int reduce(struct scratch* s, const struct vitrine_site_program* program,
                          __u32 index, __u64 now, __u64 born) {
  if (!s || !program) return 0;
  if (program->role == VITRINE_COUNT) {
    add_up(s, program, index, 0, 0);
    return 0;
  }
  if (program->role == VITRINE_HISTOGRAM || program->role == VITRINE_SUM) {
    const __u32 from = program->value;
    if (from >= VITRINE_CAPTURES || s->state[from & 31] != VITRINE_CAPTURED) {
      count(VITRINE_TRACE_UNREADABLE, 1);
      return 0;
    }
    add_up(s, program, index, s->value[from & 31],
           program->capture[from].operand.flags & VITRINE_SIGNED ? 1 : 0);
    return 0;
  }
  if (program->role == VITRINE_LATENCY_START) {
    note_start(s, program, now, born);
    return 0;
  }
  __u64 began = 0;
  if (take_start(s, program, born, &began))
    add_up(s, program, index, now > began ? now - began : 0, 0);
  return 0;
}
