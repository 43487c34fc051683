// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Text that is added up by: groups have its hash, and a table has what it was.
#pragma once

#include "bpf/kernel/hash.bpf.h"
#include "bpf/kernel/trace/trace_state.bpf.h"

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1);
  __type(key, __u64);
  __type(value, struct vitrine_name);
} names SEC(".maps");

/// Readies s->name for text of `whole` bytes, of which `there` are there. Returns how many of them to put there.
static __always_inline __u64 begin_name(struct scratch* s, __u64 there, __u64 whole) {
  __u64* words = (__u64*)s->name.bytes;
#pragma unroll
  for (int i = 0; i < VITRINE_NAME_BYTES / 8; ++i) words[i] = 0;
  const __u64 length = there > VITRINE_NAME_BYTES ? VITRINE_NAME_BYTES : there;
  s->name.whole = whole;
  s->name.length = length;
  return length;
}

/// The hash of what is in s->name. `grouped`: fires are added up by it, and it is kept.
static __always_inline __u64 end_name(struct scratch* s, __u32 grouped) {
  const int cut = s->name.whole > s->name.length;
  __u64 hash = hash_text((const struct text*)s->name.bytes, s->name.length);
  if (cut) hash = ~hash | 1;  // not that of the text that is as long as what is there
  if (!adds_up || !grouped || bpf_map_lookup_elem(&names, &hash)) return hash;
  if (cut) count(VITRINE_TRACE_NAMES_CUT, 1);
  const struct scratch* element = as_element(s);
  if (element && bpf_map_update_elem(&names, &hash, &element->name, BPF_ANY))
    count(VITRINE_TRACE_NAMES_FULL, 1);
  return hash;
}

/// Of text in the target. 0 when it cannot be read.
VERIFIED_ALONE __u64 name_of_user(struct scratch* s, __u64 address, __u64 whole, __u32 grouped) {
  if (!s) return 0;
  const __u64 length = bounded(begin_name(s, whole, whole), 2 * VITRINE_NAME_BYTES);
  if (length > VITRINE_NAME_BYTES) return 0;
  if (length && read_user(s->name.bytes, length, address)) return 0;
  return end_name(s, grouped);
}

/// Of text of `there` bytes that lies `at` bytes into *s. `cut`: there was more of it.
VERIFIED_ALONE __u64 name_of_copy(struct scratch* s, __u64 at, __u64 there, __u32 cut,
                                  __u32 grouped) {
  if (!s) return 0;
  const __u64 length = bounded(begin_name(s, there, there + (cut ? 1 : 0)), 2 * VITRINE_NAME_BYTES);
  if (length > VITRINE_NAME_BYTES || at > sizeof *s - VITRINE_NAME_BYTES) return 0;
  const void* from = (const __u8*)s + bounded(at, 32768);
  if (length && bpf_probe_read_kernel(s->name.bytes, length, from)) return 0;
  return end_name(s, grouped);
}
