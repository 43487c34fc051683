/* A ring of thread structures like musl's (docs/formats/tls.md, "musl") with a million members, of
 * which no thread is one. A thread without a thread pointer makes readers look for it in there. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((used)) const uint32_t custom_labels_abi_version = 1;
__thread void* volatile custom_labels_current_set;

enum { members = 1000000, member_words = 32, stack_bytes = 64 * 1024 };

#if defined(__x86_64__)
enum { self = 0, dtv = 1, previous = 2, next = 3, tid = 6 };
#else
enum { self = 0, previous = 1, next = 2, tid = 4, dtv = 24 };
#endif

static uint64_t many_modules[2] = {1000, 0};

/* Without a thread pointer: no library function may be called. */
static int wait_for_ever(void* unused) {
  for (;;) syscall(SYS_pause);
  (void)unused;
  return 0;
}

static void* map(size_t size) {
  void* at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) exit(1);
  return at;
}

int main(void) {
  static void* set[3];
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  custom_labels_current_set = set;
  char* stack = map(stack_bytes);
  const int number = clone(wait_for_ever, stack + stack_bytes,
                           CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                               CLONE_SYSVSEM | CLONE_SETTLS,
                           NULL, NULL, NULL, NULL);
  if (number < 0) {
    printf("cannot no thread without a thread pointer\n");
    return 3;
  }
  uint64_t* ring = map((size_t)members * member_words * sizeof *ring);
  for (size_t i = 0; i < members; ++i) {
    uint64_t* member = ring + i * member_words;
    member[self] = (uint64_t)(uintptr_t)member;
    member[dtv] = (uint64_t)(uintptr_t)many_modules;
    member[previous] = (uint64_t)(uintptr_t)(ring + (i + members - 1) % members * member_words);
    member[next] = (uint64_t)(uintptr_t)(ring + (i + 1) % members * member_words);
    member[tid] = i == 0 ? (uint64_t)number : 1000000000 + i;
  }
  printf("ready %d\n", (int)getpid());
  fflush(stdout);
  for (;;) pause();
}
