/* A process without its leader, and a fork of it that gets the number of a thread that has ended.
 *   "ready ADDRESS" of a word that is 1; on a line of standard input: "reused", or "no". In the fork
 *   the word is 2. */
#define _GNU_SOURCE
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile uint64_t word = 1;
static volatile int end_first;
static volatile pid_t first;

static void* be_first(void* unused) {
  first = (pid_t)syscall(SYS_gettid);
  while (!end_first) usleep(1000);
  return unused;
}

static void* fork_with_its_number(void* unused) {
  char line[8];
  while (first == 0) usleep(1000);
  usleep(20000); /* the leader has ended */
  printf("ready %p\n", (void*)&word);
  fflush(stdout);
  if (fgets(line, sizeof line, stdin) == NULL) exit(1);
  end_first = 1;
  while (syscall(SYS_tgkill, getpid(), first, 0) == 0) usleep(1000);
  pid_t number = first;
  struct clone_args arguments = {
      .exit_signal = SIGCHLD, .set_tid = (uintptr_t)&number, .set_tid_size = 1};
  long child = -1;
  for (int i = 0; child < 0 && i < 2000; ++i) { /* the kernel may take a moment to free it */
    child = syscall(SYS_clone3, &arguments, sizeof arguments);
    if (child < 0) usleep(1000);
  }
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    word = 2;
    printf("reused\n");
    fflush(stdout);
    for (;;) pause();
  }
  if (child < 0) {
    printf("no\n");
    fflush(stdout);
  }
  for (;;) pause();
  return unused;
}

int main(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, be_first, NULL) != 0) return 1;
  while (first == 0) usleep(1000);
  if (pthread_create(&thread, NULL, fork_with_its_number, NULL) != 0) return 1;
  pthread_exit(NULL);
}
