// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Single slow pairs: what was captured at a start is kept until its end, and sent if that is late.
#pragma once

#include "bpf/kernel/trace/reduce.bpf.h"

/// As `starts`: the oldest make room.
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 1);
  __type(key, struct start_key);
  __type(value, struct vitrine_kept_start);
} kept_starts SEC(".maps");

/// Claims the start of a key, as take_away() does: it is for the caller to delete. Null: there is none.
static __always_inline struct vitrine_kept_start* claim_kept(const struct start_key* key,
                                                             __u64 born, __u64* began) {
  for (int i = 0; i < START_TRIES; ++i) {
    const struct vitrine_kept_start* start = bpf_map_lookup_elem(&kept_starts, key);
    if (!start) return 0;
    const __u64 seen = *(const volatile __u64*)&start->pair.began;
    const __u64 its_born = *(const volatile __u64*)&start->born;
    struct vitrine_kept_start* again = bpf_map_lookup_elem(&kept_starts, key);
    if (!again || *(volatile __u64*)&again->pair.began != seen ||
        *(volatile __u64*)&again->born != its_born)
      continue;
    if (born && its_born != born) return 0;
    if (!claim_start(&again->pair.began, seen)) continue;
    *began = seen;
    return again;
  }
  return 0;
}

/// As take_away() of a start of whatever process. Returns whether there was one.
VERIFIED_ALONE int drop_kept(const struct start_key* of) {
  if (!of) return 0;
  const struct start_key key = *of;
  __u64 began = 0;
  if (!claim_kept(&key, 0, &began)) return 0;
  bpf_map_delete_elem(&kept_starts, &key);
  return 1;
}

/// Keeps s->kept.pair with what has been captured behind the head of the record.
VERIFIED_ALONE int keep_start(struct scratch* s, const struct vitrine_site_program* program) {
  if (!s || !program) return 0;
  struct start_key key = {};
  if (!start_key_of(s, program, &key)) {
    count(VITRINE_TRACE_UNREADABLE, 1);
    return 0;
  }
  struct vitrine_kept_start* kept = &s->kept;
  const __u64 captured = s->room.out.used - sizeof(struct vitrine_fire);
  const __u64 length = bounded(captured, 2 * VITRINE_KEPT_BYTES);
  kept->pair.cut = captured > VITRINE_KEPT_BYTES;
  if (captured > VITRINE_KEPT_BYTES || length > VITRINE_KEPT_BYTES ||
      (length && bpf_probe_read_kernel(kept->bytes, length,
                                       s->room.out.bytes + sizeof(struct vitrine_fire)))) {
    kept->pair.captures = 0;
    kept->pair.bytes = 0;
  } else {
    kept->pair.bytes = length;
  }
  const struct scratch* element = as_element(s);
  if (!element) return 0;
  count(VITRINE_TRACE_STARTS, 1);
  for (int i = 0; i < START_TRIES; ++i) {
    if (bpf_map_update_elem(&kept_starts, &key, &element->kept, BPF_NOEXIST) == 0) return 0;
    if (drop_kept(&key)) count(VITRINE_TRACE_STARTS_LOST, 1);
  }
  count(VITRINE_TRACE_STARTS_LOST, 1);
  return 0;
}

/// Ends the pair that this fire is the end of. `born`: as in its start. Returns whether it took too
/// long: then its start is in s->kept.
VERIFIED_ALONE int take_slow(struct scratch* s, const struct vitrine_site_program* program,
                             __u64 now, __u64 born) {
  if (!s || !program) return 0;
  struct start_key key = {};
  if (!start_key_of(s, program, &key)) {
    count(VITRINE_TRACE_UNREADABLE, 1);
    return 0;
  }
  __u64 began = 0;
  const struct vitrine_kept_start* start = claim_kept(&key, born, &began);
  if (!start) {
    count(VITRINE_TRACE_ENDS_UNMATCHED, 1);
    return 0;
  }
  int slow = now > began && now - began > trace_config.slower_ns;
  if (slow && bpf_probe_read_kernel(&s->kept, sizeof s->kept, start)) slow = 0;
  // Gone where its place was given to another key's while it was read.
  if (bpf_map_delete_elem(&kept_starts, &key) || (slow && s->kept.pair.began)) {
    count(VITRINE_TRACE_ENDS_UNMATCHED, 1);
    return 0;
  }
  s->kept.pair.began = began;
  count(VITRINE_TRACE_STARTS_ENDED, 1);
  return slow;
}

/// Puts s->kept behind the captures of its end, which make room if they must.
VERIFIED_ALONE int append_pair(struct scratch* s) {
  if (!s) return 0;
  struct label_buffer* out = &s->room.out;
  struct vitrine_fire* head = (struct vitrine_fire*)out->bytes;
  if (room_for(out, sizeof s->kept) < sizeof s->kept) {
    out->used = sizeof *head;
    out->cut++;
    head->captures = 0;
  }
  const __u64 length = bounded(s->kept.pair.bytes, 2 * VITRINE_KEPT_BYTES);
  struct vitrine_pair* pair = append(out, sizeof *pair);
  if (!pair || length > VITRINE_KEPT_BYTES) return 0;
  *pair = s->kept.pair;
  head->event.kind = VITRINE_RECORD_PAIR;
  if (length && bpf_probe_read_kernel(piece_at(out, out->used), length, s->kept.bytes)) {
    pair->captures = 0;
    pair->bytes = 0;
    return 0;
  }
  out->used += length;
  return 0;
}
