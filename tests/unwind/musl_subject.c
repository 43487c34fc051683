/* A program of musl's libc, which has no CFI: library functions, again and again.
 * musl_subject ROUNDS: after int3, so many, to be stepped through; musl_subject: in two threads, for
 * ever, after "ready". */
#include <glob.h>
#include <pthread.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile int sink;

__attribute__((noinline)) static int compare(const void* a, const void* b) {
  return *(const int*)a - *(const int*)b;
}

__attribute__((noinline)) static void work(unsigned seed) {
  int numbers[24];
  for (int n = 0; n < 24; ++n) numbers[n] = (int)(seed = seed * 1664525 + 1013904223) % 1000;
  qsort(numbers, 24, sizeof numbers[0], compare);
  char text[128];
  snprintf(text, sizeof text, "%d %f %s %a", numbers[3], 1.5 * numbers[4], "text", 0.1);
  int first = 0;
  double second = 0;
  sscanf(text, "%d %lf", &first, &second);
  sink += (int)strtol(text, NULL, 10) + first + (int)strtod("3.25e3", NULL);
  regex_t expression;
  regmatch_t match[2];
  if (regcomp(&expression, "([0-9]+) text", REG_EXTENDED) == 0) {
    sink += regexec(&expression, text, 2, match, 0);
    regfree(&expression);
  }
  char* copy = malloc(seed % 4096 + 200);
  memset(copy, 1, 100);
  strcpy(copy, text);
  sink += strstr(copy, "text") != NULL;
  copy = realloc(copy, 5000);
  free(copy);
  time_t now = 1700000000 + numbers[1];
  struct tm parts;
  gmtime_r(&now, &parts);
  strftime(text, sizeof text, "%Y-%m-%d %A", &parts);
  FILE* file = fopen("/proc/self/stat", "r");
  if (file != NULL) {
    sink += fgets(text, sizeof text, file) != NULL;
    fclose(file);
  }
  glob_t found;
  if (glob("/usr/i*", 0, NULL, &found) == 0) globfree(&found);
  const struct timespec shortly = {0, 1000};
  nanosleep(&shortly, NULL);
}

static void* work_for_ever(void* argument) {
  for (unsigned round = 0;; ++round) work(round + (unsigned)(size_t)argument);
}

int main(int argc, char** argv) {
  if (argc > 1) {
    __asm__ volatile("int3");
    for (int round = 0; round < atoi(argv[1]); ++round) work((unsigned)round);
    return 0;
  }
  pthread_t thread;
  pthread_create(&thread, NULL, work_for_ever, &thread);
  puts("ready");
  fflush(stdout);
  work_for_ever(NULL);
}
