// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The words that a thread's label sets follow from: its slots, and the number that vitrine's writer gives each set.
// If all are the same again, so are the sets. What does not follow from these words (labels of another writer,
// variables that move) is unclear. Included by event_state.bpf.h where a program keeps them (NOTES_LABELS).
#pragma once

/// A word of the stack or of a thread's variables, where it was read.
struct known_slot {
  __u64 address;
  __u64 word;
};

#define LABEL_WORDS 4 /* of one thread; a power of two */

struct label_words {
  struct known_slot slot[LABEL_WORDS];
  __u32 shape[LABEL_WORDS]; /* enum vitrine_shape, of what each slot leads to */
  __u64 set, serial;        /* of vitrine's writer; 0: there is none */
  __u32 count;
  __u32 is_unclear;
};

static __always_inline void begin_label_words(struct label_words* words) {
  words->set = words->serial = 0;
  words->count = words->is_unclear = 0;
}

/// Two adjacent words.
struct slot_pair {
  __u64 word[2];
  __u32 is_read;
};

struct label_words_walk {
  const struct label_words* words;
  __u32 differs;
};

static long compare_label_word(__u32 index, void* context) {
  struct label_words_walk* walk = context;
  const struct known_slot* slot = &walk->words->slot[bounded(index, LABEL_WORDS)];
  __u64 word = 0;
  walk->differs = peek(&word, slot->address) || word != slot->word;
  return walk->differs;
}

/// The slots of vitrine's writer are one behind the other.
static __always_inline int are_adjacent(const struct label_words* words) {
  return words->count == 2 && words->slot[0].address == words->slot[1].address + 8;
}

/// Whether all are the same again. `head`: room to read into. `read`: where the words of adjacent slots go.
static __always_inline int has_label_words(const struct label_words* words,
                                           struct serial_head* head, struct slot_pair* read) {
  read->is_read = 0;
  if (are_adjacent(words)) {
    if (READ_USER(read->word, sizeof read->word, words->slot[1].address)) return 0;
    read->is_read = 1;
    if (read->word[0] != words->slot[1].word || read->word[1] != words->slot[0].word) return 0;
  } else {
    struct label_words_walk walk = {.words = words};
    bpf_loop(words->count, compare_label_word, &walk, 0);
    if (walk.differs) return 0;
  }
  return !words->set || (read_serial_head(head, words->set) && head->serial == words->serial);
}
