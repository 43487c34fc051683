/* A process whose threads have every kind of nonsense on display: one case a thread
 * (docs/formats/custom-labels.md, "What a reader must check"). Prints "NAME TID" for each, then
 * "ready"; ends with its standard input. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct {
  size_t len;
  const void* buf;
} string_t;
typedef struct {
  string_t key, value;
} label_t;
typedef struct {
  label_t* storage;
  size_t count, capacity;
} set_t;

__attribute__((visibility("default"))) const uint32_t custom_labels_abi_version = 1;
__attribute__((visibility("default"))) __thread void* custom_labels_current_set;
__attribute__((visibility("default"))) __thread void* otel_thread_ctx_v1;

enum { page = 4096 };

static void* must(void* memory) {
  if (memory == NULL || memory == MAP_FAILED) exit(1);
  return memory;
}

/* `pages` readable pages with an unmapped one behind them. Returns the end of the readable ones. */
static char* edge(size_t pages) {
  char* start = must(
      mmap(NULL, (pages + 1) * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  munmap(start + pages * page, page);
  return start + pages * page;
}

static void* with_protection(int protection) {
  return must(mmap(NULL, page, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

/* Memory of the kernel's that this process can read, and others through the kernel cannot. */
static void* device(void) {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[512];
  unsigned long start = 0;
  while (maps && fgets(line, sizeof line, maps))
    if (strstr(line, "[vvar]")) start = strtoul(line, NULL, 16);
  if (maps) fclose(maps);
  return (void*)start;
}

/* A file mapping whose file has become empty: touching it would be SIGBUS. */
static void* truncated_file(void) {
  int fd = memfd_create("gone", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, page) != 0) exit(1);
  void* memory = must(mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0));
  if (ftruncate(fd, 0) != 0) exit(1);
  close(fd);
  return memory;
}

static string_t text(const char* characters) {
  return (string_t){strlen(characters), characters};
}

static set_t* set_of(label_t* labels, size_t count) {
  set_t* set = must(malloc(sizeof *set));
  *set = (set_t){labels, count, count};
  return set;
}

static set_t* one(string_t key, string_t value) {
  label_t* label = must(malloc(sizeof *label));
  *label = (label_t){key, value};
  return set_of(label, 1);
}

static void* at_page_end(const void* bytes, size_t size) {
  return memcpy(edge(1) - size, bytes, size);
}

static set_t* self_referential(void) {
  set_t* set = must(calloc(4, sizeof *set));
  set->storage = (label_t*)set;
  set->count = 1;
  ((label_t*)set)->value = (string_t){sizeof *set, set};
  return set;
}

static void* make(const char* name) {
  label_t good[2] = {{text("tenant"), text("acme")}, {text("route"), text("/pay")}};
  if (!strcmp(name, "good")) {
    label_t* labels = must(malloc(sizeof good));
    return set_of(memcpy(labels, good, sizeof good), 2);
  }
  if (!strcmp(name, "kernel")) return (void*)0xffff888000000000;
  if (!strcmp(name, "non-canonical")) return (void*)0x0000900000000000;
  if (!strcmp(name, "small")) return (void*)0x10;
  if (!strcmp(name, "highest")) return (void*)UINTPTR_MAX;
  if (!strcmp(name, "unmapped")) return edge(1);
  if (!strcmp(name, "prot-none")) return with_protection(PROT_NONE);
  if (!strcmp(name, "device")) return device();
  if (!strcmp(name, "truncated-file")) return truncated_file();
  if (!strcmp(name, "page-end-1")) return edge(1) - 1;
  if (!strcmp(name, "whole-at-page-end")) {
    label_t* labels = at_page_end(good, sizeof good);
    set_t set = {labels, 2, 2};
    return at_page_end(&set, sizeof set);
  }
  if (!strcmp(name, "unaligned")) {
    label_t* labels = must(malloc(sizeof good));
    set_t set = {memcpy(labels, good, sizeof good), 2, 2};
    char* memory = must(malloc(64));
    return memcpy(memory + 3, &set, sizeof set);
  }
  if (!strcmp(name, "array-cut")) return set_of(at_page_end(good, sizeof good), SIZE_MAX);
  if (!strcmp(name, "array-prot-none")) return set_of(with_protection(PROT_NONE), 3);
  if (!strcmp(name, "array-wraps")) return set_of((label_t*)(UINTPTR_MAX - 31), SIZE_MAX / 2);
  if (!strcmp(name, "value-cut"))
    return one(text("k"), (string_t){(size_t)1 << 32, at_page_end("edge", 4)});
  if (!strcmp(name, "value-prot-none"))
    return one(text("k"), (string_t){100, with_protection(PROT_NONE)});
  if (!strcmp(name, "key-device")) return one((string_t){4, device()}, text("v"));
  if (!strcmp(name, "self")) return self_referential();
  if (!strcmp(name, "duplicates")) {
    enum { count = 1000000 };
    label_t* labels = must(malloc(count * sizeof *labels));
    for (size_t i = 0; i < count; ++i) labels[i] = good[0];
    return set_of(labels, count);
  }
  if (!strcmp(name, "null-keys")) return set_of(must(calloc(100000, sizeof(label_t))), 100000);
  if (!strcmp(name, "large-value")) {
    enum { size = 1 << 20 };
    return one(text("k"), (string_t){size, memset(must(malloc(size)), 'x', size)});
  }
  if (!strncmp(name, "shared", 6)) {
    static char value[15000];
    static label_t label = {{1, "k"}, {sizeof value, value}};
    static set_t set = {&label, 1, 1};
    return &set;
  }
  if (!strcmp(name, "otel-page-end")) {
    char record[28] = {1};
    record[24] = 1;
    memset(record + 26, 0xff, 2);
    return at_page_end(record, sizeof record);
  }
  exit(2);
}

static const char* const cases[] = {"good",        "kernel",          "non-canonical",
                                    "small",       "highest",         "unmapped",
                                    "prot-none",   "device",          "truncated-file",
                                    "page-end-1",  "unaligned",       "whole-at-page-end",
                                    "array-cut",   "array-prot-none", "array-wraps",
                                    "value-cut",   "value-prot-none", "key-device",
                                    "self",        "duplicates",      "null-keys",
                                    "large-value", "otel-page-end",   "shared-1",
                                    "shared-2",    "shared-3",        "shared-4",
                                    "shared-5",    "shared-6",        "shared-7",
                                    "shared-8"};

static pthread_barrier_t everyone;

static void* run(void* name) {
  void* set = make(name);
  if (strncmp(name, "otel", 4) == 0)
    otel_thread_ctx_v1 = set;
  else
    custom_labels_current_set = set;
  char line[100];
  int size = snprintf(line, sizeof line, "%s %ld\n", (char*)name, syscall(SYS_gettid));
  if (write(1, line, (size_t)size) != size) exit(1);
  pthread_barrier_wait(&everyone);
  for (;;) pause();
}

int main(void) {
  enum { count = sizeof cases / sizeof *cases };
  pthread_barrier_init(&everyone, NULL, count + 1);
  for (int i = 0; i < count; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, (void*)cases[i]) != 0) return 1;
  }
  pthread_barrier_wait(&everyone);
  if (write(1, "ready\n", 6) != 6) return 1;
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
  return 0;
}
