/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The hash by which the kernel side of a trace distinguishes strings: SipHash-1-3 (Aumasson and
 * Bernstein 2012) under a key that is drawn anew for every trace, so that a target cannot make two
 * of its strings pass for one. Plain C, the same in both worlds. */
#pragma once

#include <linux/types.h>

struct vitrine_hash_key {
  __u64 words[2];
};

/* Of a string, this much distinguishes it, and this much of a group's name is kept. */
#define VITRINE_NAME_BYTES 128

struct vitrine_hash_state {
  __u64 v0, v1, v2, v3;
};

static inline __attribute__((always_inline)) __u64 vitrine_rotate(__u64 value, int by) {
  return (value << by) | (value >> (64 - by));
}

static inline __attribute__((always_inline)) void vitrine_hash_round(struct vitrine_hash_state* s) {
  s->v0 += s->v1;
  s->v1 = vitrine_rotate(s->v1, 13) ^ s->v0;
  s->v0 = vitrine_rotate(s->v0, 32);
  s->v2 += s->v3;
  s->v3 = vitrine_rotate(s->v3, 16) ^ s->v2;
  s->v0 += s->v3;
  s->v3 = vitrine_rotate(s->v3, 21) ^ s->v0;
  s->v2 += s->v1;
  s->v1 = vitrine_rotate(s->v1, 17) ^ s->v2;
  s->v2 = vitrine_rotate(s->v2, 32);
}

static inline __attribute__((always_inline)) void vitrine_hash_begin(
    struct vitrine_hash_state* s, const struct vitrine_hash_key* key) {
  s->v0 = key->words[0] ^ 0x736f6d6570736575ULL;
  s->v1 = key->words[1] ^ 0x646f72616e646f6dULL;
  s->v2 = key->words[0] ^ 0x6c7967656e657261ULL;
  s->v3 = key->words[1] ^ 0x7465646279746573ULL;
}

/* Eight bytes of the message, little-endian. */
static inline __attribute__((always_inline)) void vitrine_hash_word(struct vitrine_hash_state* s,
                                                                    __u64 word) {
  s->v3 ^= word;
  vitrine_hash_round(s);
  s->v0 ^= word;
}

/* `rest`: the last bytes (length % 8 of them), little-endian, zeros above. */
static inline __attribute__((always_inline)) __u64 vitrine_hash_end(struct vitrine_hash_state* s,
                                                                    __u64 rest, __u64 length) {
  vitrine_hash_word(s, rest | length << 56);
  s->v2 ^= 0xff;
  vitrine_hash_round(s);
  vitrine_hash_round(s);
  vitrine_hash_round(s);
  return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

/* After the end, 64 bits more: as the second half of SipHash-128 is made. */
static inline __attribute__((always_inline)) __u64 vitrine_hash_more(struct vitrine_hash_state* s) {
  s->v1 ^= 0xdd;
  vitrine_hash_round(s);
  vitrine_hash_round(s);
  vitrine_hash_round(s);
  return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}
