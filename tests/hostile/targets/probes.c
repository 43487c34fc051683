/* Probes that fire with anything for arguments, and libraries whose notes lie. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <vitrine/sdt.h>

#include "trick.h"

VITRINE_SEMAPHORE(hostile_text);

__attribute__((noinline)) static void fire(const char* text, uint64_t size) {
  VITRINE_SHARED_TYPED_PROBE(hostile_text, hostile, text, (text, text),
                             VITRINE_BYTES(bytes, text, size));
}

static void wild(void) {
  char* unfinished = edge(1) - 10;
  memset(unfinished, '\x1b', 10);
  const char* const to[] = {NULL,
                            (char*)8,
                            (char*)0x800000000000,
                            (char*)0xffff888000000000,
                            (char*)UINTPTR_MAX,
                            (char*)(UINTPTR_MAX - 4095),
                            edge(1),
                            unfinished,
                            pages(1, PROT_NONE),
                            device_page()};
  ready();
  for (size_t i = 0;; ++i) {
    fire(to[i % 10], i % 3 ? UINT64_MAX >> i % 64 : 16);
    count();
    rest_us(200);
  }
}

/* Nobody but this thread counts: it must not be held up by who looks. */
static void never_come(void) {
  char* text = pages_that_never_come(2);
  ready();
  for (;;) {
    fire(text, 64);
    fire(text + page - 4, 64);
    count();
    rest_us(200);
  }
}

static void fire_labels_that_never_come(void* set) {
  custom_labels_current_set = set;
  otel_thread_ctx_v1 = (char*)set + 64;
  for (;;) {
    fire("text", 4);
    count();
    rest_us(200);
  }
}

static void labels_never_come(void) {
  ready();
  fire_labels_that_never_come(pages_that_never_come(1));
}

static void fire_without_end(void* unused) {
  (void)unused;
  for (;;) {
    fire("text", 4);
    count();
  }
}

static void storm(void) {
  in_thread(fire_without_end, NULL);
}

static void load(const char* name) {
  char path[512];
  const char* directory = getenv("HOSTILE_LIBRARIES");
  must(directory != NULL, "HOSTILE_LIBRARIES");
  snprintf(path, sizeof path, "%s/%s", directory, name);
  void* library = dlopen(path, RTLD_NOW);
  if (library == NULL) puts(dlerror());
  must(library != NULL, path);
  void (*run)(void) = (void (*)(void))(uintptr_t)dlsym(library, "hostile_code");
  ready();
  for (;;) {
    if (run != NULL) run();
    count();
    rest_us(200);
  }
}

static void lying_notes(void) {
  load("libhostile_probes.so");
}

static void many_notes(void) {
  load("libhostile_notes.so");
}

static void dof(void) {
  load("libhostile_dof.so");
}

const struct trick probe_tricks[] = {{"probe-arguments-wild", wild},
                                     {"probe-arguments-never-come", never_come},
                                     {"probe-labels-never-come", labels_never_come},
                                     {"probe-storm", storm},
                                     {"notes-lie", lying_notes},
                                     {"notes-many", many_notes},
                                     {"dof-cycles", dof},
                                     {NULL, NULL}};
