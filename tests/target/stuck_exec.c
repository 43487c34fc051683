/* "PID" of a child that executes another program, which does not end: the kernel waits for one of its
 * threads, that has ended, to be waited for by who traces it, which is us. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <unistd.h>

static void* be_traced(void* unused) {
  ptrace(PTRACE_TRACEME, 0, NULL, NULL);
  return unused;
}

int main(void) {
  const pid_t child = fork();
  if (child == 0) {
    pthread_t thread;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (pthread_create(&thread, NULL, be_traced, NULL) != 0) return 1;
    pthread_join(thread, NULL);
    execl("/bin/true", "true", (char*)NULL);
    return 1;
  }
  usleep(200000);
  printf("%d\n", (int)child);
  fflush(stdout);
  for (;;) pause();
}
