/* A writer that changes its labels again and again, the way real writers do it, so that a reader
 * who copies bytes at the wrong moment gets a mixture.
 *
 *   racing PATTERN PAUSE_NS THREADS
 *
 * Each value tells how it must look: sixteen hexadecimal digits of a generation, then as many times
 * one character as follows from it, then the digits again. So a torn value, a freed one, or labels
 * of two generations in one set show. What a suspended thread may show, by PATTERN:
 *
 *   edit    one set, labels edited in place one by one, each hidden (null key) meanwhile; strings
 *           are malloc'ed anew and freed. Any label may be missing; generations may differ.
 *   swap    a new set for each generation; the one before is freed. Always whole.
 *   ring    four sets, rewritten in turn. Always whole.
 *   record  one otel_thread_ctx_v1 record, edited in place under its valid flag. Whole, or none.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct string {
  uint64_t size;
  const char* data;
};
struct label {
  struct string key, value;
};
struct set {
  struct label* labels;
  uint64_t count, capacity;
};
struct record {
  uint64_t trace_id[2], span_id;
  uint8_t valid, flags;
  uint16_t attributes;
};

__attribute__((used)) const uint32_t custom_labels_abi_version = 1;
__thread struct set* volatile custom_labels_current_set;
__thread struct record* volatile otel_thread_ctx_v1;

enum { label_count = 3, value_max = 16 + 64 + 16 };
static const char* const names[label_count] = {"first", "second", "third"};
static long pause_ns;

/* All that keeps a writer's stores in order for a reader who suspends it. */
#define barrier() __asm__ volatile("" ::: "memory")

static size_t make_value(char* into, uint64_t generation) {
  const size_t filling = generation % 64;
  sprintf(into, "%016llx", (unsigned long long)generation);
  memset(into + 16, 'a' + (int)(generation % 26), filling);
  sprintf(into + 16 + filling, "%016llx", (unsigned long long)generation);
  return 32 + filling;
}

static void rest(void) {
  struct timespec now, end;
  if (pause_ns == 0) return;
  if (pause_ns >= 50000) { /* as a thread that waits for its next request */
    const struct timespec pause = {0, pause_ns};
    nanosleep(&pause, NULL);
    return;
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  do clock_gettime(CLOCK_MONOTONIC, &now);
  while ((now.tv_sec - end.tv_sec) * 1000000000L + now.tv_nsec - end.tv_nsec < pause_ns);
}

static char* new_value(uint64_t generation, uint64_t* size) {
  char* value = malloc(value_max + 1);
  if (value == NULL) abort();
  *size = make_value(value, generation);
  return value;
}

static struct set* new_set(uint64_t generation) {
  struct set* set = malloc(sizeof *set);
  if (set == NULL) abort();
  set->labels = malloc(label_count * sizeof(struct label));
  if (set->labels == NULL) abort();
  set->count = set->capacity = label_count;
  for (int i = 0; i < label_count; ++i) {
    struct label* label = &set->labels[i];
    label->key.size = strlen(names[i]);
    label->key.data = strdup(names[i]);
    label->value.data = new_value(generation, &label->value.size);
  }
  return set;
}

static void free_set(struct set* set) {
  for (int i = 0; i < label_count; ++i) {
    free((void*)set->labels[i].key.data);
    free((void*)set->labels[i].value.data);
  }
  free(set->labels);
  free(set);
}

static void edit(uint64_t generation) {
  if (custom_labels_current_set == NULL) {
    struct set* first = new_set(generation);
    barrier();
    custom_labels_current_set = first;
  }
  for (int i = 0; i < label_count; ++i) {
    struct label* label = &custom_labels_current_set->labels[i];
    const char* key = label->key.data;
    const char* before = label->value.data;
    label->key.data = NULL;
    barrier();
    free((void*)before);
    label->value.data = new_value(generation, &label->value.size);
    barrier();
    label->key.data = key;
    barrier();
  }
}

static void swap(uint64_t generation) {
  struct set* before = custom_labels_current_set;
  struct set* next = new_set(generation);
  barrier();
  custom_labels_current_set = next;
  barrier();
  if (before != NULL) free_set(before);
}

static void ring(uint64_t generation) {
  static __thread struct {
    struct set set;
    struct label labels[label_count];
    char values[label_count][value_max + 1];
  } blocks[4];
  const int next = (int)(generation % 4);
  struct set* set = &blocks[next].set;
  set->labels = blocks[next].labels;
  set->count = set->capacity = label_count;
  for (int i = 0; i < label_count; ++i) {
    struct label* label = &set->labels[i];
    label->key.size = strlen(names[i]);
    label->key.data = names[i];
    label->value.size = make_value(blocks[next].values[i], generation);
    label->value.data = blocks[next].values[i];
  }
  barrier();
  custom_labels_current_set = set;
  barrier();
}

static void edit_record(uint64_t generation) {
  static __thread struct record record;
  volatile struct record* now = &record;
  now->valid = 0;
  barrier();
  now->trace_id[0] = generation;
  now->trace_id[1] = generation;
  now->span_id = generation;
  now->flags = (uint8_t)generation;
  barrier();
  now->valid = 1;
  otel_thread_ctx_v1 = &record;
  barrier();
}

static const struct {
  const char* name;
  void (*change)(uint64_t generation);
} patterns[] = {{"edit", edit}, {"swap", swap}, {"ring", ring}, {"record", edit_record}};

static void* run(void* argument) {
  void (*change)(uint64_t) = *(void (*const*)(uint64_t))argument;
  for (uint64_t generation = 1;; ++generation) {
    change(generation);
    rest();
  }
  return NULL;
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  pause_ns = atol(argv[2]);
  for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; ++i) {
    if (strcmp(patterns[i].name, argv[1]) != 0) continue;
    for (int n = atoi(argv[3]); n > 0; --n) {
      pthread_t thread;
      if (pthread_create(&thread, NULL, run, (void*)&patterns[i].change) != 0) return 1;
    }
    puts("ready");
    fflush(stdout);
    getchar();
    return 0;
  }
  return 2;
}
