/* Starts a program that runs for about a millisecond, again and again, as many at once as arguments say:
 * storm COUNT. That program is this one without arguments. As `storm stay` it prints its PID after its work,
 * and stays as long as its parent. */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

static long __attribute__((noinline)) short_work(long n) {
  long sum = 0;
  for (long i = 0; i < n; ++i) sum += (i ^ n) % 7;
  return sum;
}

static char self[4096];

static void start(void) {
  char* arguments[] = {"storm", NULL};
  pid_t pid;
  if (posix_spawn(&pid, self, NULL, NULL, arguments, environ) != 0) _exit(1);
}

int main(int count, char** arguments) {
  if (count == 1) return (int)(short_work(400000) & 1);
  if (strcmp(arguments[1], "stay") == 0) {
    const pid_t parent = getppid();
    printf("%ld %ld\n", (long)getpid(), short_work(4000000) & 1);
    fflush(stdout);
    while (getppid() == parent) usleep(100000);
    return 0;
  }
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return 1;
  for (int n = atoi(arguments[1]); n > 0; --n) start();
  puts("ready");
  fflush(stdout);
  while (wait(NULL) > 0) start();
  return 0;
}
