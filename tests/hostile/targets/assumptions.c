/* What breaks the two rules that the evidence of readings assumes (docs/reading.md). */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

#include "trick.h"

enum { value_size = 56 };

/* Two values, each of one letter: the same in both, but while they are being changed. */
struct block {
  struct set set;
  uint64_t magic, serial; /* src/abi/custom_labels.hpp, SerialTrailer */
  uint32_t total_bytes, flags;
  uint64_t self;
  struct label labels[2];
  char keys[2][8];
  volatile char values[2][value_size];
};

static void fill(struct block* block, int value, char letter) {
  for (int i = 0; i < value_size; ++i) block->values[value][i] = letter;
}

static struct block* block_of(uint64_t magic) {
  struct block* block = (struct block*)pages(1, PROT_READ | PROT_WRITE);
  block->set = (struct set){block->labels, 2, 2};
  block->magic = magic;
  block->serial = 7;
  block->total_bytes = sizeof *block;
  block->self = (uintptr_t)block;
  for (int i = 0; i < 2; ++i) {
    memcpy(block->keys[i], i == 0 ? "first" : "other", 5);
    block->labels[i] = (struct label){{5, block->keys[i]}, {value_size, (char*)block->values[i]}};
    fill(block, i, 'a');
  }
  return block;
}

static void show(void* set) {
  custom_labels_current_set = set;
  for (;;) rest_us(10000);
}

/* Rests where the values differ as long as where they do not. */
static void edit_without_end(void* set) {
  for (unsigned turn = 0;; ++turn) {
    const char letter = (char)('a' + turn % 26);
    fill(set, 0, letter);
    rest_us(2000);
    fill(set, 1, letter);
    rest_us(2000);
  }
}

/* A thread that rests shows a set, and another one edits it. */
static void edited_by_another(void) {
  struct block* block = block_of(0);
  in_thread(show, block);
  in_thread(edit_without_end, block);
}

/* As vitrine's publishing library has it, and its number stays what it was. */
static void serial_forged(void) {
  struct block* block = block_of(UINT64_C(0x76d17e1ab315e751));
  in_thread(show, block);
  in_thread(edit_without_end, block);
}

const struct trick assumption_tricks[] = {{"label-edited-by-another", edited_by_another},
                                          {"label-serial-forged", serial_forged},
                                          {NULL, NULL}};
