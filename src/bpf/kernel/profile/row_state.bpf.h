// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// What rows.bpf.h and label_content.bpf.h keep in a program's scratch, also what would be too much for its
// stack.
#pragma once

#include "bpf/wire/event.h"
#include "bpf/wire/spans.h"

/// A block of vitrine's writer in a sample, as it was read.
struct block_copy {
  __u64 at; /* in the sample; 0: there is none */
  __u64 address;
  __u64 bytes;
};

/// Hashes of what a label set has.
struct set_content {
  __u64 ids; /* of trace and span; 0: only the set's id is known, which is the other one then */
  __u64 without_span;
};

/// The same, where other CPUs may be writing: `check` fits to the set's key and to both hashes, or it is not whole.
struct known_content {
  __u64 check;
  __u64 ids;
  __u64 without_span;
};

static __always_inline __u64 check_of(__u64 set_key, const struct set_content* content) {
  const __u64 without_span = content->without_span;
  return set_key ^ content->ids ^ (without_span << 1 | without_span >> 63);
}

#define NO_SPAN (~0ULL) /* something else may have ids, too */

enum row_hash_of {
  HASH_OF_ROW,
  HASH_OF_SUBJECT, /* where there is a filter */
  HASH_OF_CONTENT, /* of a label set, without the ids of trace and span */
  HASH_OF_IDS,     /* of that set */
  HASHES,          /* a power of two */
};

#define QUEUED_WORDS 16 /* a power of two */

/// A hash, and the words that it takes next, several of them at once.
struct row_hash {
  struct vitrine_hash_state state;
  __u64 queued;
  __u64 word[2 * QUEUED_WORDS]; /* from QUEUED_WORDS on: to be written, and never queued */
};

/// A row by its name, and where it was looked for.
struct named_row {
  struct vitrine_row_key key; /* first 0: it has no name */
  __u32 number;
  __u32 found; /* enum vitrine_row_found */
};

/// A model that has been sent: it stays where it is until its generation ends.
struct known_model {
  struct vitrine_row_key key;
  __u32 number;
  __u32 generation;
};

#define KNOWN_MODELS 64 /* a power of two */

/// A set's hashes for `contents`.
struct new_content {
  __u64 set_key; /* 0: there are none */
  struct set_content hashes;
};

struct row_state {
  struct named_row own; /* without a name: the sample is not added up */
  /* Of all samples that differ by trace and span alone; without a name: it is not known for sure what these are. */
  struct named_row model;
  __u64 address_mask;     /* of its process */
  struct slot_pair slots; /* of its thread, where they are those that known_thread.bpf.h keeps */
  __u64 subject;          /* what a filter depends on; 0: not known for sure */
  __u32 is_unwanted;      /* the sample, by its subject */
  __u32 is_known;         /* all but its stacks, for sure */
  __u32 keeps_labels;     /* its labels are those that known_thread.bpf.h keeps of its thread */
  __u32 lacks_sets;       /* it has them by ids that no record has carried: put_sets_in() */
  __u32 has_other_sets;   /* they were put in, and are not those that it was named by */
  __u32 generation;       /* of rows, when they were looked for */
  __u32 unclear;          /* of the sample, while it is hashed */
  struct row_hash hash[HASHES];
  struct new_content new_content[VITRINE_DEFINITIONS]; /* of its sets, until they are sent */
  __u32 hashed_sets;                                   /* how many of these are of this sample */
  __u32 hashed;                                        /* what is hashed now goes to this one */
  __u32 has_ids;                                       /* something is in HASH_OF_IDS */
  struct vitrine_span_sample span; /* the ids of trace and span, and room to send them */
  __u64 spans_logged;              /* how many its log has got since the start */
  __u64 span_at;                   /* the record that has them; 0: none; NO_SPAN */
  __u64 ids;                       /* of all sets */
  struct set_content set;          /* the label set that is looked at */
  __u64 set_key;                   /* its id and definition */
  __u32 has_block;                 /* it is one */
  __u64 set_at;                    /* the next label set in the sample */
  __u64 at;                        /* the words in the sample that are hashed */
  struct block_copy block;
  __u64 entries; /* of the block's labels, in the sample */
  __u64 content_unclear;
};

#define SPANS_MET 256 /* a power of two */

static __always_inline struct row_hash* hash_of(struct row_state* row) {
  return &row->hash[bounded(row->hashed, HASHES)];
}
