/* What a module with slots offers to writer.c. No C library is needed. */
#ifndef VITRINE_TESTS_SLOT_H
#define VITRINE_TESTS_SLOT_H

#include <stddef.h>

struct writer_label {
  const char* key;
  const unsigned char* value;
  size_t size;
};

struct writer_labels {
  const struct writer_label* label; /* the n-th key has index n in the key map */
  size_t count;
  const unsigned char* trace_id; /* 16 bytes */
  const unsigned char* span_id;  /* 8 bytes */
  unsigned char flags;
};

enum { writer_block_bytes = 2048 };

struct writer_slot {
  const char* format;     /* the name vitrine uses; null ends the table */
  int has_trace;          /* 1: displays ids; 2: and flags */
  int has_attributes;     /* displays labels */
  void* (*address)(void); /* of the calling thread's variable; touches it */
  /* Puts the labels on display in the calling thread, in `block`: zeroed, writer_block_bytes long,
   * left in place as long as they are on display. */
  void (*publish)(unsigned char* block, const struct writer_labels* labels);
};

extern const struct writer_slot writer_slots[];

#endif
