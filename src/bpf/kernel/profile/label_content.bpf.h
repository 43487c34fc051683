// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The content of a label set of vitrine's writer, as opposed to where and when it was made: a program that makes
// an equal one for each request has equal samples.
#pragma once

#include "bpf/kernel/profile/sample_state.bpf.h"

#define CONTENTS 16384 /* a power of two */

/// Hashes of the contents of sets, each at the place of its key, as a set that has been sent is not read again. Of one
/// whose place another has taken, its key is all that is known: it has rows of its own.
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, CONTENTS);
  __type(key, __u32);
  __type(value, struct known_content);
} contents SEC(".maps");

static __always_inline volatile struct known_content* place_of_content(__u64 set_key) {
  const __u32 place = set_key >> 1 & (CONTENTS - 1);
  return bpf_map_lookup_elem(&contents, &place);
}

static __always_inline void keep_content(__u64 set_key, const struct set_content* content) {
  volatile struct known_content* known = place_of_content(set_key);
  if (!known) return;
  known->ids = content->ids;
  known->without_span = content->without_span;
  known->check = check_of(set_key, content);
}

static __always_inline void begin_row_hash(struct row_hash* hash) {
  vitrine_hash_begin(&hash->state, &config.hash_key);
  hash->queued = 0;
}

/// Takes the queued words into the hash.
VERIFIED_ALONE int hash_queued(struct scratch* s, __u32 which) {
  if (!s) return 0;
  struct row_hash* hash = &s->row.hash[bounded(which, HASHES)];
  const __u64 queued = hash->queued;
#pragma clang loop unroll(disable)
  for (__u32 i = 0; i < QUEUED_WORDS; i += FEW_WORDS) {
    if (i >= queued) break;
    hash_words(&hash->state, (const struct few_words*)(hash->word + i), queued - i);
  }
  hash->queued = 0;
  return 0;
}

/// Where `words` words (at most QUEUED_WORDS) can be written to, which count_queued() queues.
static __always_inline __u64* room_in_queue(struct scratch* s, __u32 which, __u64 words) {
  struct row_hash* hash = &s->row.hash[bounded(which, HASHES)];
  if (hash->queued > QUEUED_WORDS - words) hash_queued(s, which);
  return hash->word + bounded(hash->queued, QUEUED_WORDS);
}

static __always_inline void count_queued(struct scratch* s, __u32 which, __u64 words) {
  s->row.hash[bounded(which, HASHES)].queued += words;
}

/// As vitrine_hash_end() without a rest.
static __always_inline __u64 end_row_hash(struct scratch* s, __u32 which, __u64 length) {
  hash_queued(s, which);
  return end_hash(&s->row.hash[which].state, length);
}

/// Of the sample at s->row.at, into hash_of(&s->row).
static long hash_four_of_sample(__u32 index, void* context) {
  struct scratch* s = *(struct scratch**)context;
  const struct few_words* words = sample_at(&s->room.out, s->row.at + index * sizeof *words);
  if (!words) return 1;
  // A call would be one too many above each other.
  hash_some(&hash_of(&s->row)->state, words, FEW_WORDS);
  return 0;
}

/// Of words of the sample; none is queued.
VERIFIED_ALONE int hash_of_sample(struct scratch* s, __u64 at, __u64 words) {
  if (!s) return 0;
  s->row.at = at;
  bpf_loop(words / FEW_WORDS, hash_four_of_sample, &s, 0);
  const struct few_words* rest = sample_at(&s->room.out, at + (words & ~3ULL) * 8);
  if (rest) hash_words(&hash_of(&s->row)->state, rest, words & 3);
  return 1;
}

/// Where in the sample so many bytes of the block are; 0: it does not have them.
static __always_inline __u64 place_in_block(const struct scratch* s, __u64 address, __u64 length) {
  const struct block_copy* block = &s->row.block;
  const __u64 offset = (address & s->row.address_mask) - block->address;
  if (!block->at || offset > block->bytes || length > block->bytes - offset) return 0;
  return block->at + offset;
}

/// So many bytes of the block; null: it does not have them.
static __always_inline const __u64* words_of_block(struct scratch* s, __u64 address, __u64 length) {
  const __u64 at = place_in_block(s, address, length);
  return at ? sample_at(&s->room.out, at) : 0;
}

/// Bytes of the sample, the last word filled up with zeros: the caller has hashed their number.
VERIFIED_ALONE int hash_bytes(struct scratch* s, __u64 at, __u64 length) {
  if (!s) return 0;
  const __u64* last = sample_at(&s->room.out, at + (length & ~7ULL));
  hash_of_sample(s, at, length / 8);
  if (last && length & 7)
    hash_word(&hash_of(&s->row)->state, *last & ((1ULL << (length & 7) * 8) - 1));
  return 0;
}

#define FEW_BYTES (FEW_WORDS * 8)

/// The same of at most FEW_BYTES bytes, into the queue, which has room for one word more. Returns how many words these
/// are.
static __always_inline __u64 queue_bytes(__u64* queue, const __u64* bytes, __u64 length) {
  queue[0] = bytes[0];
  queue[1] = bytes[1];
  queue[2] = bytes[2];
  queue[3] = bytes[3];
  // Of a multiple of 8 this is the word behind them.
  queue[bounded(length / 8, 8)] &= (1ULL << (length & 7) * 8) - 1;
  return (length + 7) / 8;
}

#define TRACE_ID_KEY 0x64695f6563617274ULL /* "trace_id" */
#define SPAN_ID_KEY 0x64695f6e617073ULL    /* "span_id" */

#define EACH_BYTE 0x0101010101010101ULL

/// The highest bit of each byte that is a lower-case hex digit.
static __always_inline __u64 hex_digits(__u64 text) {
  const __u64 low = text & EACH_BYTE * 0x7f;  // a sum stays in its byte
  const __u64 digits = (low + EACH_BYTE * (0x80 - '0')) & ~(low + EACH_BYTE * (0x7f - '9'));
  const __u64 letters = (low + EACH_BYTE * (0x80 - 'a')) & ~(low + EACH_BYTE * (0x7f - 'f'));
  return (digits | letters) & ~text;
}

/// vitrine's writer has the ids of trace and span as labels, too. What user space does not take for ids
/// (EventLabels::merge) is a label as any other.
static __always_inline __u32 is_id_entry(const __u64* key, __u64 length, const __u64* value,
                                         __u64 digits) {
  const __u64 if_trace = vitrine_if_zero((length ^ 8) | (digits ^ 32) | (*key ^ TRACE_ID_KEY));
  const __u64 if_span =
      vitrine_if_zero((length ^ 7) | (digits ^ 16) | (*key << 8 ^ SPAN_ID_KEY << 8));
  if (!(if_trace | if_span)) return 0;
  const __u64 valid = hex_digits(value[0]) & hex_digits(value[1]) &
                      ((hex_digits(value[2]) & hex_digits(value[3])) | if_span);
  return vitrine_if_zero(~valid & EACH_BYTE * 0x80) & 1;
}

_Static_assert(HASH_OF_IDS == HASH_OF_CONTENT + 1, "one is chosen without a branch");

static long hash_entry(__u32 index, void* context) {
  struct scratch* s = *(struct scratch**)context;
  const struct label_entry* entry =
      sample_at(&s->room.out, s->row.entries + index * sizeof(struct label_entry));
  if (!entry) return 1;
  const __u64 key_length = entry->key_length, value_length = entry->value_length;
  if (!entry->key || !entry->value) {
    *room_in_queue(s, HASH_OF_CONTENT, 1) = 0;
    count_queued(s, HASH_OF_CONTENT, 1);
    return 0;
  }
  const __u64 key_at = place_in_block(s, entry->key, key_length);
  const __u64 value_at = place_in_block(s, entry->value, value_length);
  const __u64 *key = sample_at(&s->room.out, key_at), *value = sample_at(&s->room.out, value_at);
  if (!key_at || !value_at || !key || !value) {
    s->row.content_unclear = 1;
    return 1;
  }
  const __u32 is_id = is_id_entry(key, key_length, value, value_length);
  const __u32 which = HASH_OF_CONTENT + is_id;
  s->row.has_ids |= is_id;
  __u64* queue = room_in_queue(s, which, 2 + 2 * FEW_WORDS);
  queue[0] = 1 | key_length << 1 | value_length << 32;  // no block is so long
  if (key_length <= FEW_BYTES && value_length <= FEW_BYTES) {
    const __u64 words = queue_bytes(queue + 1, key, key_length);
    queue += 1 + bounded(words, 8);
    count_queued(s, which, 1 + words + queue_bytes(queue, value, value_length));
  } else {
    count_queued(s, which, 1);
    s->row.hashed = which;
    hash_queued(s, which);
    hash_bytes(s, key_at, key_length);
    hash_bytes(s, value_at, value_length);
  }
  return 0;
}

// Nothing is queued yet where these begin.

/// The ids of trace and span apart from the others.
static __always_inline void hash_labels(struct scratch* s) {
  const struct serial_head* head = sample_at(&s->room.out, s->row.block.at);
  if (!head) return;
  const __u64 count = head->count;
  const __u64 offset = (head->storage & s->row.address_mask) - s->row.block.address;
  s->row.content_unclear = count > LABEL_ENTRIES || offset > s->row.block.bytes ||
                           count * sizeof(struct label_entry) > s->row.block.bytes - offset;
  if (s->row.content_unclear) return;
  s->row.hash[HASH_OF_CONTENT].word[0] = count;
  s->row.hash[HASH_OF_CONTENT].queued = 1;
  s->row.entries = s->row.block.at + offset;
  bpf_loop(count, hash_entry, &s, 0);
}

/// A thread record in the block, without its ids.
static __always_inline void hash_record(struct scratch* s, __u64 address) {
  const __u16* words = (const __u16*)words_of_block(s, address, RECORD_HEADER);
  s->row.content_unclear = !words;
  if (!words) return;
  const __u64 length = RECORD_HEADER - RECORD_IDS + words[RECORD_HEADER / 2 - 1];
  const __u64 at = place_in_block(s, address + RECORD_IDS, length);
  const __u64* bytes = sample_at(&s->room.out, at);
  s->row.content_unclear = !at || !bytes;
  if (!at || !bytes) return;
  struct row_hash* hash = &s->row.hash[HASH_OF_CONTENT];
  hash->word[0] = length;
  hash->queued = 1;
  if (length <= FEW_BYTES) {
    hash->queued += queue_bytes(hash->word + 1, bytes, length);
  } else {
    hash_queued(s, HASH_OF_CONTENT);
    s->row.hashed = HASH_OF_CONTENT;
    hash_bytes(s, at, length);
  }
}

/// The ids of that record.
static __always_inline void hash_ids(struct scratch* s, __u64 address) {
  const __u64* ids = words_of_block(s, address, RECORD_IDS);
  if (!ids) return;
  s->row.has_ids = 1;
  struct row_hash* hash = &s->row.hash[HASH_OF_IDS];
  hash->word[0] = ids[0];
  hash->word[1] = ids[1];
  hash->word[2] = ids[2];
  hash->queued = 3;
}

/// Whether what is kept of a set is a block.
static __always_inline int is_block(const struct vitrine_fire_set* set) {
  const struct vitrine_chunk* chunk = (const struct vitrine_chunk*)(set + 1);
  const struct serial_head* head = (const struct serial_head*)(chunk + 1);
  return set->kept_bytes >= sizeof *chunk + sizeof *head && !set->fresh_bytes &&
         chunk->got >= sizeof *head && head->magic == SERIAL_MAGIC &&
         head->self == chunk->address &&
         set->kept_bytes == sizeof *chunk + ((chunk->got + 7) & ~7U);
}

// Hashes of the content of the label set at s->row.set_at, into s->row.set; its id, where that is not known. Two
// functions, one after the other, as what each has on its stack is not to be beside what the other has.

/// A record may be in the block of a set before. Returns whether its ids are still to be hashed: add_ids().
VERIFIED_ALONE int find_content(struct scratch* s) {
  if (!s) return 0;
  s->row.set.ids = s->row.set.without_span = 0;
  const struct vitrine_fire_set* set = sample_at(&s->room.out, s->row.set_at);
  if (!set || !set->id) return 0;
  // Definitions are few: their bits are in no other id's way.
  s->row.set_key = set->id ^ (__u64)set->definition << 1;
  s->row.has_block = is_block(set);
  if (s->row.has_block) {
    const struct vitrine_chunk* chunk = (const struct vitrine_chunk*)(set + 1);
    s->row.block.at = s->row.set_at + sizeof *set + sizeof *chunk;
    s->row.block.address = chunk->address;
    s->row.block.bytes = chunk->got;
  }
  const __u64 slot = set->slot;
  const __u64 offset = (slot & s->row.address_mask) - s->row.block.address;
  const int in_block = !set->kept_bytes && !set->fresh_bytes && s->row.block.at && offset &&
                       offset < s->row.block.bytes;
  // A set does not change. Off the CPU its block comes every time: it is hashed once. On the CPU it comes until it has
  // been sent, and most are seen once.
  const int is_new = !s->room.whole && (s->row.has_block || in_block);
  const volatile struct known_content* known = is_new ? 0 : place_of_content(s->row.set_key);
  if (known) {
    s->row.set.ids = known->ids;
    s->row.set.without_span = known->without_span;
    if (known->check == check_of(s->row.set_key, &s->row.set)) return 0;
  }
  s->row.set.ids = 0;
  s->row.set.without_span = s->row.set_key;
  if (!s->row.has_block && !in_block) return 0;
  begin_row_hash(&s->row.hash[HASH_OF_CONTENT]);
  begin_row_hash(&s->row.hash[HASH_OF_IDS]);
  s->row.has_ids = 0;
  if (s->row.has_block)
    hash_labels(s);
  else
    hash_record(s, slot);
  return !s->row.content_unclear;
}

/// After find_content(): the ids of trace and span into s->row.span, if this set alone has them.
static __always_inline void note_span(struct scratch* s, const struct vitrine_fire_set* set) {
  if (!set->id && !set->slot) return;  // there is no set
  const int is_known = s->row.set.ids != 0;
  if (is_known && s->row.has_block) return;
  const __u64* ids = is_known ? words_of_block(s, set->slot, RECORD_HEADER) : 0;
  // Two slots may have the same record. It counts if it is valid, and its ids are not all zero.
  const int is_only = s->row.span_at == 0 || s->row.span_at == set->slot;
  if (!ids || !is_only || (ids[3] & 0xff) != 1 || !(ids[0] | ids[1] | ids[2])) {
    s->row.span_at = NO_SPAN;
    return;
  }
  s->row.span_at = set->slot;
  s->row.span.trace_id[0] = ids[0];
  s->row.span.trace_id[1] = ids[1];
  s->row.span.span_id = ids[2];
}

/// After find_content().
VERIFIED_ALONE int add_ids(struct scratch* s) {
  const struct vitrine_fire_set* set = s ? sample_at(&s->room.out, s->row.set_at) : 0;
  if (!set) return 0;
  if (!s->row.has_block) hash_ids(s, set->slot);
  s->row.set.without_span = end_row_hash(s, HASH_OF_CONTENT, 1) | 1;
  s->row.set.ids = s->row.has_ids ? end_row_hash(s, HASH_OF_IDS, 2) | 1 : 1;
  return 0;
}
