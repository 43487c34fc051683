/* Label sets that change under the reader's hands, at full speed. */
#define _GNU_SOURCE
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "trick.h"

static uint64_t random_of(uint64_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  return *state ^= *state << 17;
}

/* A set in good order, in one page. */
static void fill(char* memory) {
  struct set* set = (struct set*)memory;
  struct label* labels = (struct label*)(memory + 64);
  for (int i = 0; i < 16; ++i) {
    char* bytes = memory + 1024 + i * 64;
    memset(bytes, 'a' + i, 64);
    labels[i] = (struct label){{8, bytes}, {56, bytes + 8}};
  }
  *set = (struct set){labels, 16, 16};
}

/* Another thread's set is what changes: its slot is not ours to write. */
static void show(void* set) {
  custom_labels_current_set = set;
  for (volatile uint64_t turn = 0;; ++turn) {
    if (turn % 4096 == 0) rest_us(100);
  }
}

static void garbage_without_end(void* memory) {
  static const uint64_t wild[] = {0,
                                  1,
                                  16,
                                  UINT64_C(1) << 32,
                                  UINT64_C(1) << 63,
                                  UINT64_MAX,
                                  0xffff888000000000,
                                  0x900000000000};
  uint64_t state = (uintptr_t)memory | 1;
  for (;;) {
    volatile uint64_t* word = (uint64_t*)memory + random_of(&state) % 72;
    const uint64_t other = wild[random_of(&state) % 8];
    const uint64_t before = *word;
    *word = other;
    *word = before;
    if (random_of(&state) % 64 == 0) fill(memory);
  }
}

static void garbage(void) {
  char* memory = pages(1, PROT_READ | PROT_WRITE);
  fill(memory);
  in_thread(show, memory);
  in_thread(show, memory);
  in_thread(garbage_without_end, memory);
}

static void slot_without_end(void* memory) {
  static void* const wild[] = {NULL, (void*)16, (void*)UINTPTR_MAX, (void*)0xffff888000000000};
  for (uint64_t turn = 0;; ++turn) {
    custom_labels_current_set = memory;
    otel_thread_ctx_v1 = wild[turn % 4];
    custom_labels_current_set = wild[turn % 4];
    otel_thread_ctx_v1 = memory;
  }
}

static void slots(void) {
  char* memory = pages(1, PROT_READ | PROT_WRITE);
  fill(memory);
  in_thread(slot_without_end, memory);
  in_thread(slot_without_end, memory);
}

static void unmap_without_end(void* memory) {
  for (;;) {
    must(munmap(memory, page) == 0, "munmap");
    must(mmap(memory, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
              0) == memory,
         "mmap");
    fill(memory);
  }
}

static void move_without_end(void* memory) {
  char* away = (char*)memory + page;
  for (;;) {
    must(mremap(memory, page, page, MREMAP_MAYMOVE | MREMAP_FIXED, away) == away, "mremap");
    must(mremap(away, page, page, MREMAP_MAYMOVE | MREMAP_FIXED, memory) == memory, "mremap");
  }
}

static void protect_without_end(void* memory) {
  for (;;) {
    mprotect(memory, page, PROT_NONE);
    mprotect(memory, page, PROT_READ | PROT_WRITE);
  }
}

/* Between two pages that stay: what is free for a moment has room for nothing else. */
static void race(void (*change)(void*)) {
  for (int i = 0; i < 2; ++i) {
    char* memory = pages(4, PROT_NONE) + page;
    must(mprotect(memory, 2 * page, PROT_READ | PROT_WRITE) == 0, "mprotect");
    fill(memory);
    in_thread(show, memory);
    in_thread(change, memory);
  }
}

static void unmapping(void) {
  race(unmap_without_end);
}

static void moving(void) {
  race(move_without_end);
}

static void protecting(void) {
  race(protect_without_end);
}

/* The page is there, and is not, and never comes when it is not. */
struct demand {
  char *memory, *good;
  int descriptor;
};

static void come_and_go(void* argument) {
  const struct demand* demand = argument;
  for (;;) {
    struct uffdio_copy copy = {.dst = (uintptr_t)demand->memory,
                               .src = (uintptr_t)demand->good,
                               .len = page,
                               .mode = UFFDIO_COPY_MODE_DONTWAKE};
    ioctl(demand->descriptor, UFFDIO_COPY, &copy);
    rest_us(20);
    madvise(demand->memory, page, MADV_DONTNEED);
  }
}

static void coming_and_going(void) {
  struct demand* demand = malloc(sizeof *demand);
  must(demand != NULL, "malloc");
  demand->memory = pages_on_demand(1, &demand->descriptor);
  demand->good = pages(1, PROT_READ | PROT_WRITE);
  fill(demand->good);
  for (int i = 0; i < 4; ++i) in_thread(show, demand->memory);
  in_thread(come_and_go, demand);
}

const struct trick racing_tricks[] = {{"label-garbage", garbage},
                                      {"label-slots-change", slots},
                                      {"label-unmapped", unmapping},
                                      {"label-moved", moving},
                                      {"label-protected", protecting},
                                      {"label-page-comes-and-goes", coming_and_going},
                                      {NULL, NULL}};
