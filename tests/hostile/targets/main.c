/* hostile_target NAME plays one trick; without a name it lists them. Writes "ready PID", then runs
 * until it is killed. HOSTILE_PROGRESS names a file in which it counts on: progress, signals
 * handled, signals sent; and is told there, by a number other than 0, to send no more. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trick.h"

static _Atomic uint64_t* counters;

void ready_as(int pid) {
  char line[40];
  const int size = snprintf(line, sizeof line, "ready %d\n", pid);
  must(write(1, line, (size_t)size) == size, "write");
}

void ready(void) {
  ready_as(getpid());
}

void count(void) {
  atomic_fetch_add(&counters[0], 1);
}

void count_signal(void) {
  atomic_fetch_add(&counters[1], 1);
}

void count_sent(void) {
  atomic_fetch_add(&counters[2], 1);
}

void wait_while_asked_to_rest(void) {
  while (atomic_load(&counters[3]) != 0) rest_us(1000);
}

void count_on(void) {
  for (;;) {
    count();
    rest_us(500);
  }
}

void cannot(const char* why) {
  dprintf(1, "cannot %s\n", why);
  _exit(3);
}

void must(int holds, const char* what) {
  if (holds) return;
  perror(what);
  _exit(1);
}

static void map_counters(void) {
  const char* path = getenv("HOSTILE_PROGRESS");
  must(path != NULL, "HOSTILE_PROGRESS");
  const int file = open(path, O_RDWR | O_CLOEXEC);
  must(file >= 0, path);
  counters = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  must(counters != MAP_FAILED, "mmap");
  close(file);
}

int main(int argc, char** argv) {
  const struct trick* const tables[] = {
      label_tricks, racing_tricks, context_tricks, linker_tricks,  stack_tricks,
      code_tricks,  thread_tricks, process_tricks, file_tricks,    probe_tricks,
      held_tricks,  lying_tricks,  forged_tricks,  mapping_tricks, assumption_tricks};
  if (argc >= 2) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    map_counters();
  }
  for (size_t i = 0; i < sizeof tables / sizeof *tables; ++i)
    for (const struct trick* trick = tables[i]; trick->name != NULL; ++trick) {
      if (argc < 2) {
        puts(trick->name);
      } else if (strcmp(trick->name, argv[1]) == 0) {
        trick->play();
        ready();
        count_on();
      }
    }
  return argc < 2 ? 0 : 2;
}
