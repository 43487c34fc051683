/* A publisher of which every name and value is a placeholder: publisher.py puts other bytes of the
 * same length into the file. It keeps a thread busy, which changes its name and fires probes, and
 * ends with its input. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
#include <vitrine/sdt.h>

#include "../../writers/process_context.h"
#include "../../writers/slot.h"

/* HOSTILE_NAME and HOSTILE_VALUE: identifiers of 240 characters, from the command line. */
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
enum { size = 240, part = 15 };

static char name[] = TEXT(HOSTILE_NAME);
static char value[] = TEXT(HOSTILE_VALUE);
static char binary[size + 3]; /* the value, a NUL and what is no UTF-8 */
static const unsigned char trace_id[16] = {0x5e, 0xc3, 0xe7, 1, 2,  3,  4,  5,
                                           6,    7,    8,    9, 10, 11, 12, 13};
static const unsigned char span_id[8] = {0x5b, 0xa2, 1, 2, 3, 4, 5, 6};
static volatile uint64_t sink;

/* A note whose arguments make no sense. */
__attribute__((noinline)) static void odd_probe(void) {
  __asm__ volatile(
      "990: nop\n"
      ".pushsection .note.stapsdt, \"\", \"note\"\n"
      ".balign 4\n.4byte 992f-991f, 994f-993f, 3\n"
      "991: .asciz \"stapsdt\"\n992: .balign 4\n"
      "993: .8byte 990b, _.stapsdt.base, 0\n"
      ".asciz \"odd\"\n.asciz \"" TEXT(HOSTILE_NAME) "\"\n.asciz \"" TEXT(HOSTILE_NAME) "\"\n"
      "994: .balign 4\n.popsection\n");
}

static uint64_t now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000U + (uint64_t)now.tv_nsec / 1000U;
}

__attribute__((noinline)) void HOSTILE_NAME(void) {
  for (const uint64_t end = now_us() + 4000; now_us() < end;)
    for (int i = 0; i < 1000; ++i) sink = sink * 6364136223846793005U + 1;
}

#ifdef __x86_64__
/* `loop: dec rdi; jnz loop; ret` in memory, named in /tmp/perf-PID.map. */
static void (*jit_code(void))(long) {
  static const unsigned char code[] = {0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3};
  void* page =
      mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) abort();
  memcpy(page, code, sizeof code);
  char path[64];
  snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
  FILE* map = fopen(path, "w");
  if (map == NULL) abort();
  fprintf(map, "%lx %zx %s\n", (unsigned long)page, sizeof code, name);
  fclose(map);
  void (*made)(long);
  memcpy(&made, &page, sizeof made);
  return made;
}
#else
static void nothing(long n) {
  sink += (uint64_t)n;
}
static void (*jit_code(void))(long) {
  return nothing;
}
#endif

static void display(void) {
  const struct writer_label label[] = {
      {"tenant", (const unsigned char*)"acme", 4},
      {"user", (const unsigned char*)value, size},
      {"session", (const unsigned char*)binary, sizeof binary},
      {name, (const unsigned char*)"named", 5},
  };
  static const char* keys[] = {"tenant", "user", "session", name};
  static const struct context_attribute attributes[] = {
      {"service.name", value}, {name, "named"}, {"user", value}};
  const struct writer_labels labels = {label, 4, trace_id, span_id, 1};
  for (const struct writer_slot* slot = writer_slots; slot->format != NULL; ++slot) {
    unsigned char* block = calloc(1, 2 * writer_block_bytes);
    if (block == NULL) abort();
    slot->publish(block, &labels);
    publish_process_context_with(slot->format, keys, 4, attributes, 3);
  }
}

static void* work(void* argument) {
  (void)argument;
  void (*const made)(long) = jit_code();
  display();
  for (int i = 0;; ++i) {
    char slice[part + 1] = {0};
    memcpy(slice, name + i % (size / part) * part, part);
    prctl(PR_SET_NAME, slice);
    const int number = i % 3;
    VITRINE_TYPED_PROBE(app, typed, (user, value), (number, number));
    VITRINE_TYPED_PROBE(HOSTILE_NAME, HOSTILE_NAME, (HOSTILE_NAME, value));
    VITRINE_PROBE(app, plain, value, i);
    odd_probe();
    HOSTILE_NAME();
    made(2000000);
    usleep(5000);
  }
  return NULL;
}

int main(void) {
  memcpy(binary, value, size);
  binary[size + 1] = (char)0xff;
  binary[size + 2] = (char)0x9b;
  pthread_t thread;
  if (pthread_create(&thread, NULL, work, NULL) != 0) abort();
  usleep(50000);
  puts("ready");
  fflush(stdout);
  while (getchar() != EOF) {
  }
  return 0;
}
