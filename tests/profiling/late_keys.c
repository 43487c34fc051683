/* A thread whose record is in force before the process publishes the name of its key, as with an SDK that starts late.
 * The record is that of docs/formats/thread-context.md. Runs until its standard input ends. */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "writers/process_context.h"

struct record {
  uint8_t trace_id[16], span_id[8], valid, flags;
  uint16_t attribute_bytes;
  uint8_t attributes[6]; /* index of the key, length, "acme" */
};

__attribute__((visibility("default"))) __thread struct record* otel_thread_ctx_v1;

static int goes_on(void) {
  struct pollfd input = {0, POLLIN, 0};
  return poll(&input, 1, 0) == 0;
}

static void work_until(time_t end) {
  volatile unsigned long work = 0;
  while (time(NULL) < end && goes_on())
    for (int i = 0; i < 100000; ++i) work = work + 1;
}

int main(void) {
  static struct record record = {{1}, {2}, 1, 0, 6, {0, 4, 'a', 'c', 'm', 'e'}};
  static const char* const keys[] = {"tenant"};
  otel_thread_ctx_v1 = &record;
  puts("ready");
  fflush(stdout);
  work_until(time(NULL) + 3);
  if (publish_process_context("otel-thread-ctx-v1", keys, 1) != 0) return 1;
  puts("published");
  fflush(stdout);
  work_until(time(NULL) + 60);
  return 0;
}
