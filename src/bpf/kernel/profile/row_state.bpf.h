// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// What rows.bpf.h and label_content.bpf.h keep in a program's scratch, also what would be too much for its
// stack.
#pragma once

#include "bpf/wire/event.h"
#include "bpf/wire/profile.h"

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

enum row_hash {
  HASH_OF_ROW,
  HASH_OF_SUBJECT, /* where there is a filter */
  HASH_OF_CONTENT, /* of a label set, without the ids of trace and span */
  HASH_OF_IDS,     /* of that set */
  HASHES,          /* a power of two */
};

struct row_state {
  struct vitrine_row_key key; /* first 0: the sample is not added up */
  /* Of all samples that differ by trace and span alone; first 0: it is not known for sure what these are. */
  struct vitrine_row_key model;
  __u64 address_mask;     /* of its process */
  struct slot_pair slots; /* of its thread, where they are those that known_thread.bpf.h keeps */
  __u64 subject;          /* what a filter depends on; 0: not known for sure */
  __u32 is_unwanted;      /* the sample, by its subject */
  __u32 is_known;         /* all but its stacks, for sure */
  __u32 keeps_labels;     /* its labels are those that known_thread.bpf.h keeps of its thread */
  __u32 lacks_sets;       /* it has them by ids that no record has carried: put_sets_in() */
  __u32 has_other_sets;   /* they were put in, and are not those that it was named by */
  __u32 found;            /* enum vitrine_row_found */
  __u32 number;           /* of the row that was found */
  __u32 model_found;      /* the same of the model's row */
  __u32 model_number;
  __u32 generation; /* of rows, when it was looked for */
  __u32 unclear;    /* of the sample, while it is hashed */
  struct vitrine_hash_state hash[HASHES];
  struct few_words words;          /* that are hashed together */
  __u32 hashed;                    /* what is hashed now goes to this one */
  __u32 has_ids;                   /* something is in HASH_OF_IDS */
  struct vitrine_span_sample span; /* the ids of trace and span, and room to send them */
  __u64 span_at;                   /* the record that has them; 0: none; NO_SPAN */
  __u64 ids;                       /* of all sets */
  struct set_content set;          /* the label set that is looked at */
  __u64 set_key;                   /* its id and definition */
  __u32 content_at;                /* its place in `contents` */
  __u32 has_block;                 /* it is one */
  __u64 set_at;                    /* the next label set in the sample */
  __u64 at;                        /* the words in the sample that are hashed */
  struct block_copy block;
  __u64 entries; /* of the block's labels, in the sample */
  __u64 content_unclear;
};

static __always_inline struct vitrine_hash_state* hash_of(struct row_state* row) {
  return &row->hash[bounded(row->hashed, HASHES)];
}
