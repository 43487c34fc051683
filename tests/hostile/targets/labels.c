/* Label sets and thread records that lie: one lie a thread. */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "trick.h"

__attribute__((visibility("default"))) const uint32_t custom_labels_abi_version = 1;
__attribute__((visibility("default"))) __thread void* volatile custom_labels_current_set;
__attribute__((visibility("default"))) __thread void* volatile otel_thread_ctx_v1;

struct string text(const char* characters) {
  return (struct string){strlen(characters), characters};
}

struct set* set_of(struct label* labels, uint64_t count) {
  struct set* set = malloc(sizeof *set);
  must(set != NULL, "malloc");
  *set = (struct set){labels, count, count};
  return set;
}

struct set* set_of_one(struct string key, struct string value) {
  struct label* label = malloc(sizeof *label);
  must(label != NULL, "malloc");
  *label = (struct label){key, value};
  return set_of(label, 1);
}

static void show_set(void* set) {
  custom_labels_current_set = set;
  for (;;) rest_us(100000);
}

static void show_record(void* record) {
  otel_thread_ctx_v1 = record;
  for (;;) rest_us(1000);
}

static struct label* good_labels(void) {
  struct label good[2] = {{text("tenant"), text("acme")}, {text("route"), text("/pay")}};
  return at_edge(good, sizeof good);
}

static void counts(void) {
  static const uint64_t many[] = {3,
                                  UINT64_C(1) << 31,
                                  UINT64_C(1) << 32,
                                  UINT64_C(1) << 58,
                                  UINT64_C(1) << 59,
                                  UINT64_C(1) << 63,
                                  UINT64_MAX,
                                  UINT64_MAX / 32};
  for (size_t i = 0; i < sizeof many / sizeof *many; ++i) {
    in_thread(show_set, set_of(good_labels(), many[i]));
    in_thread(show_set, set_of_one((struct string){many[i], at_edge("key", 3)}, text("v")));
    in_thread(show_set, set_of_one(text("k"), (struct string){many[i], at_edge("value", 5)}));
    in_thread(show_set, set_of_one(text("k"), (struct string){many[i], (void*)(UINTPTR_MAX - 9)}));
  }
}

static void cycles(void) {
  struct set* set = set_of(NULL, UINT64_C(1) << 32);
  set->labels = (struct label*)set;
  in_thread(show_set, set);
  struct label* label = malloc(2 * sizeof *label);
  must(label != NULL, "malloc");
  label[0] = (struct label){{64, label}, {64, label}};
  label[1] = (struct label){{32, &label[1]}, {SIZE_MAX, label}};
  in_thread(show_set, set_of(label, 2));
  void** slot = malloc(sizeof *slot);
  must(slot != NULL, "malloc");
  *slot = slot;
  in_thread(show_set, slot);
  in_thread(show_record, slot);
}

static void wild(void) {
  const uintptr_t addresses[] = {0x10,
                                 0x7ffffffff000,
                                 0x800000000000,
                                 0xffff888000000000,
                                 UINTPTR_MAX,
                                 UINTPTR_MAX - 23,
                                 (uintptr_t)edge(1),
                                 (uintptr_t)edge(1) - 1,
                                 (uintptr_t)pages(1, PROT_NONE),
                                 (uintptr_t)pages(1, PROT_WRITE),
                                 (uintptr_t)device_page()};
  for (size_t i = 0; i < sizeof addresses / sizeof *addresses; ++i) {
    void* to = (void*)addresses[i];
    in_thread(show_set, to);
    in_thread(show_record, to);
    in_thread(show_set, set_of(to, 2));
    in_thread(show_set, set_of_one((struct string){4, to}, text("v")));
    in_thread(show_set, set_of_one(text("k"), (struct string){4, to}));
  }
}

/* Every step of the way to a label leads to a page that never comes, in one thread each. */
static void never_come(void) {
  char* to = pages_that_never_come(8);
  in_thread(show_set, to);
  in_thread(show_record, to + page);
  in_thread(show_record, to + page - 30);
  in_thread(show_set, set_of((struct label*)(to + 2 * page), 2));
  in_thread(show_set, set_of_one((struct string){4, to + 3 * page}, text("v")));
  in_thread(show_set, set_of_one(text("k"), (struct string){1 << 20, to + 4 * page}));
  /* The first bytes are there, the rest is not. */
  char* last = pages(1, PROT_READ | PROT_WRITE);
  char* joined = mremap(last, page, page, MREMAP_MAYMOVE | MREMAP_FIXED, to + 5 * page);
  must(joined == to + 5 * page, "mremap");
  struct label* labels = (struct label*)(joined + page - sizeof(struct label));
  labels[0] = (struct label){text("k"), text("v")};
  in_thread(show_set, set_of(labels, 2));
}

static void records(void) {
  static const uint16_t sizes[] = {1, 2, 3, 600, 0x7fff, 0xffff};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    unsigned char record[28 + 700];
    memset(record, 0xff, sizeof record);
    record[24] = 1;
    memcpy(record + 26, &sizes[i], 2);
    in_thread(show_record, at_edge(record, sizeof record));
    memset(record + 28, 0, 700); /* attributes of no bytes, without end */
    in_thread(show_record, at_edge(record, sizeof record));
    in_thread(show_record, at_edge(record, 28));
    in_thread(show_record, at_edge(record, 27));
  }
}

/* Many threads with as much on display as a reader takes of each: half of them the same set, half a
 * set of their own. Some of it is control characters, that are six times as long in JSON. */
static void flood(void) {
  enum { labels = 256, value = 512, threads = 1200 };
  struct label* all = calloc(labels, sizeof *all);
  must(all != NULL, "calloc");
  for (int i = 0; i < labels; ++i) {
    char* bytes = malloc(value);
    must(bytes != NULL, "malloc");
    memset(bytes, i % 16 ? 'x' : 1, value);
    bytes[0] = (char)('0' + i % 10);
    bytes[1] = (char)('0' + i / 10 % 10);
    bytes[2] = (char)('0' + i / 100);
    all[i] = (struct label){{16, bytes}, {value, bytes}};
  }
  struct set* shared = set_of(all, labels);
  for (int i = 0; i < threads; ++i) in_thread(show_set, i % 2 ? shared : set_of(all, labels));
}

static void large_values(void) {
  enum { size = 64 << 20 };
  char* bytes = pages(size / page, PROT_READ | PROT_WRITE);
  memset(bytes, 'x', size);
  struct label* all = calloc(100000, sizeof *all);
  must(all != NULL, "calloc");
  for (int i = 0; i < 100000; ++i)
    all[i] = (struct label){{size, bytes + i}, {(uint64_t)size - 7, bytes + i % 64}};
  for (int i = 0; i < 20; ++i) in_thread(show_set, set_of(all, 100000));
}

static struct set* common_set;

static void* share_set(void* unused) {
  custom_labels_current_set = common_set;
  while (custom_labels_current_set != NULL) rest_us(1000000000);
  return unused;
}

static void share_set_and_run(void* unused) {
  (void)unused;
  custom_labels_current_set = common_set;
  for (volatile uint64_t runs = 0;;) ++runs;
}

/* HOSTILE_THREADS threads with one set between them. One of them runs and may edit it, so none of
 * them can be proven at rest. */
static void shared_by_many(void) {
  const char* asked = getenv("HOSTILE_THREADS");
  const int most = asked != NULL ? atoi(asked) : 10000;
  common_set = set_of_one(text("tenant"), text("acme"));
  pthread_attr_t small;
  must(pthread_attr_init(&small) == 0, "pthread_attr_init");
  must(pthread_attr_setstacksize(&small, (size_t)PTHREAD_STACK_MIN) == 0,
       "pthread_attr_setstacksize");
  must(pthread_attr_setguardsize(&small, 0) == 0, "pthread_attr_setguardsize");
  int made = 0;
  pthread_t thread;
  while (made < most && pthread_create(&thread, &small, share_set, NULL) == 0) ++made;
  in_thread(share_set_and_run, NULL);
  dprintf(1, "note %d threads share a set\n", made + 1);
}

const struct trick label_tricks[] = {{"label-counts", counts},
                                     {"label-cycles", cycles},
                                     {"label-wild-pointers", wild},
                                     {"label-pages-that-never-come", never_come},
                                     {"record-sizes", records},
                                     {"label-flood", flood},
                                     {"label-large-values", large_values},
                                     {"label-shared-by-many", shared_by_many},
                                     {NULL, NULL}};
