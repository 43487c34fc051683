// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The keyed hash (query/keyed_hash.h) of what is in a buffer.
#pragma once

#include "bpf/kernel/event_state.bpf.h"

struct hash_walk {
  struct vitrine_hash_state state;
  struct label_buffer* out;
  __u64 at;
};

static long hash_four_words(__u32 index, void* context) {
  struct hash_walk* walk = context;
  const __u64* words = piece_at(walk->out, walk->at + index * 32);
  vitrine_hash_word(&walk->state, words[0]);
  vitrine_hash_word(&walk->state, words[1]);
  vitrine_hash_word(&walk->state, words[2]);
  vitrine_hash_word(&walk->state, words[3]);
  return 0;
}

/// Of chunks in the buffer: `length` is a multiple of 8. Never 0. `salt` distinguishes what must
/// not be taken for the same although its bytes are.
static __always_inline __u64 hash_chunks(struct label_buffer* out, __u64 at, __u64 length,
                                         __u64 salt) {
  struct hash_walk walk = {.out = out, .at = at};
  vitrine_hash_begin(&walk.state, &config.hash_key);
  vitrine_hash_word(&walk.state, salt);
  bpf_loop(length / 32, hash_four_words, &walk, 0);
  const __u64* rest = piece_at(out, at + (length & ~31ULL));
  const __u64 words = length / 8 & 3;
  if (words > 0) vitrine_hash_word(&walk.state, rest[0]);
  if (words > 1) vitrine_hash_word(&walk.state, rest[1]);
  if (words > 2) vitrine_hash_word(&walk.state, rest[2]);
  return vitrine_hash_end(&walk.state, 0, length) | 1;
}

/// Text, and a word more: a length of a multiple of 8 has no rest there.
struct text {
  __u64 words[VITRINE_NAME_BYTES / 8 + 1];
};

/// As query::string_hash: of the first VITRINE_NAME_BYTES bytes.
VERIFIED_ALONE __u64 hash_text(const struct text* text, __u64 length) {
  if (!text) return 0;
  const __u64* bytes = text->words;
  struct vitrine_hash_state state;
  if (length > VITRINE_NAME_BYTES) length = VITRINE_NAME_BYTES;
  vitrine_hash_begin(&state, &config.hash_key);
  const __u64 words = length / 8;
  __u64 rest = 0;
  for (__u32 i = 0; i <= VITRINE_NAME_BYTES / 8; ++i) {
    if (i == words) {
      if (length & 7) rest = bytes[i] & ((1ULL << (length & 7) * 8) - 1);
      break;
    }
    vitrine_hash_word(&state, bytes[i]);
  }
  const __u64 hash = vitrine_hash_end(&state, rest, length);
  return hash ? hash : 1;
}
