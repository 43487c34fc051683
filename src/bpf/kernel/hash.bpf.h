// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The keyed hash (query/keyed_hash.h) of what is in a buffer.
#pragma once

#include "bpf/kernel/event_state.bpf.h"

// A round of the hash is 30 instructions, and a program is verified, patched and compiled by its length: it is there once.

#define FEW_WORDS 4 /* of most keys and values; the ids of a trace have no more */

struct few_words {
  __u64 word[FEW_WORDS];
};

static __always_inline void hash_some(struct vitrine_hash_state* state,
                                      const struct few_words* words, __u64 count) {
  struct vitrine_hash_state hash = *state;
#pragma clang loop unroll(disable)
  for (__u32 i = 0; i < FEW_WORDS; ++i) {
    if (i >= count) break;
    vitrine_hash_word(&hash, words->word[i]);
  }
  *state = hash;
}

/// At most FEW_WORDS of these.
VERIFIED_ALONE int hash_words(struct vitrine_hash_state* state, const struct few_words* words,
                              __u64 count) {
  if (state && words) hash_some(state, words, count);
  return 0;
}

VERIFIED_ALONE int hash_word(struct vitrine_hash_state* state, __u64 word) {
  if (state) vitrine_hash_word(state, word);
  return 0;
}

/// vitrine_hash_end() without a rest.
VERIFIED_ALONE __u64 end_hash(struct vitrine_hash_state* state, __u64 length) {
  return state ? vitrine_hash_end(state, 0, length) : 0;
}

struct hash_walk {
  struct vitrine_hash_state state;
  struct label_buffer* out;
  __u64 at;
};

static long hash_four_words(__u32 index, void* context) {
  struct hash_walk* walk = context;
  hash_words(&walk->state, piece_at(walk->out, walk->at + index * sizeof(struct few_words)),
             FEW_WORDS);
  return 0;
}

/// Of chunks in the buffer: `length` is a multiple of 8. Never 0. `salt` distinguishes what must
/// not be taken for the same although its bytes are.
static __always_inline __u64 hash_chunks(struct label_buffer* out, __u64 at, __u64 length,
                                         __u64 salt) {
  struct hash_walk walk = {.out = out, .at = at};
  vitrine_hash_begin(&walk.state, &config.hash_key);
  hash_word(&walk.state, salt);
  bpf_loop(length / sizeof(struct few_words), hash_four_words, &walk, 0);
  hash_words(&walk.state, piece_at(out, at + (length & ~31ULL)), length / 8 & 3);
  return end_hash(&walk.state, length) | 1;
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
