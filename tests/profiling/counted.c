/* Work in threads, children or programs that begin and end all the time, with what the kernel says it took:
 *
 *   counted threads|forks|programs|chains MILLISECONDS
 *   counted program REPLACEMENTS [PIECES]                 is one of the programs
 *
 * Prints "ready", works once it has read a line, prints the nanoseconds of rusage, and stays until its input ends.
 * Each piece of work is longer than a period of the profile's clock. */
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char** environ;

static const long piece = 1000000;
static char self[4096];

static void* work(void* unused) {
  for (volatile long i = 0; i < piece; ++i)
    ;
  return unused;
}

static void in_threads(void) {
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i)
    if (pthread_create(threads + i, NULL, work, NULL) != 0) exit(1);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
}

static void in_children(void) {
  for (int i = 0; i < 4; ++i)
    if (fork() == 0) {
      work(NULL);
      _exit(0);
    }
  while (wait(NULL) > 0)
    ;
}

static void in_programs(const char* replacements) {
  for (int i = 0; i < 4; ++i) {
    char* arguments[] = {"counted", "program", (char*)replacements, NULL};
    pid_t pid;
    if (posix_spawn(&pid, self, NULL, NULL, arguments, environ) != 0) exit(1);
  }
  while (wait(NULL) > 0)
    ;
}

/* Replaces itself so many times, each time after so many pieces of work. */
static int as_program(int replacements, const char* pieces) {
  for (int i = 0; i < atoi(pieces); ++i) work(NULL);
  if (replacements == 0) return 0;
  char text[16];
  sprintf(text, "%d", replacements - 1);
  execl(self, "counted", "program", text, pieces, (char*)NULL);
  return 1;
}

static long long ms_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static long long used_ns(int who) {
  struct rusage use;
  getrusage(who, &use);
  return ((use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000LL + use.ru_utime.tv_usec +
          use.ru_stime.tv_usec) *
         1000;
}

int main(int count, char** arguments) {
  if (count < 3 || readlink("/proc/self/exe", self, sizeof self - 1) < 0) return 2;
  const char* kind = arguments[1];
  if (strcmp(kind, "program") == 0)
    return as_program(atoi(arguments[2]), count > 3 ? arguments[3] : "1");
  puts("ready");
  fflush(stdout);
  getchar();
  const long long used = used_ns(RUSAGE_SELF) + used_ns(RUSAGE_CHILDREN);
  for (const long long end = ms_now() + atoi(arguments[2]); ms_now() < end;) {
    if (strcmp(kind, "threads") == 0)
      in_threads();
    else if (strcmp(kind, "forks") == 0)
      in_children();
    else
      in_programs(strcmp(kind, "chains") == 0 ? "9" : "0");
  }
  printf("%lld\n", used_ns(RUSAGE_SELF) + used_ns(RUSAGE_CHILDREN) - used);
  fflush(stdout);
  while (getchar() != EOF)
    ;
  return 0;
}
