// A program whose thread record is in force before the process has named its key, as with an SDK that starts late:
//   fire N   fires late:shot N times
//   name     publishes a process context, with the name
//   exec     executes itself
// Each is answered with a line that begins with its word. At start it tells "ready PID".
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vitrine/sdt.h>

#include "writers/process_context.h"

struct record {
  uint8_t trace_id[16], span_id[8], valid, flags;
  uint16_t attribute_bytes;
  uint8_t attributes[6];  // index of the key, length, "acme"
};

__attribute__((visibility("default"))) __thread struct record* otel_thread_ctx_v1;

int main(void) {
  static struct record record = {{1}, {2}, 1, 0, 6, {0, 4, 'a', 'c', 'm', 'e'}};
  static const char* const keys[] = {"tenant"};
  otel_thread_ctx_v1 = &record;
  setvbuf(stdout, NULL, _IOLBF, 0);
  printf("ready %d\n", getpid());
  char line[64];
  while (fgets(line, sizeof line, stdin)) {
    if (strncmp(line, "fire ", 5) == 0) {
      for (int i = atoi(line + 5); i > 0; --i) VITRINE_PROBE(late, shot, i);
      puts("fire");
    } else if (strncmp(line, "exec", 4) == 0) {
      execl("/proc/self/exe", "trace_late_keys", NULL);
    } else {
      puts(publish_process_context("otel-thread-ctx-v1", keys, 1) == 0 ? "name" : "failed");
    }
  }
  return 0;
}
