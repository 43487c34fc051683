// A program with probes, which does what it is told by its arguments and then on standard input:
//   fire N        fires subject:shot N times, at two sites in turn, and subject:guarded
//   values        fires subject:values
//   large         fires subject:shot under labels, one of which is longer than a fire can carry
//   null          fires subject:shot under labels, the first of which has a null value, and comes again
//   fork N        a child fires N times; the child's pid and how it ended are told
//   run COMMAND   a child executes this program with that one command
//   exec COMMAND  it executes itself with that one command, and goes on to read its input
//   daemon N      a grandchild whose parent has ended fires N times, and then again and again
//   become FILE   it executes another program, which goes on to read its input
//   open LIB      loads a library and calls its plugin_call()
//   rate N        fires as fast as it can, N times
//   leave         its first thread ends, another one goes on to read its input, and stays
//   state         tells the semaphore of subject:guarded
//   crash         ends by a signal
// Its labels: shot, the text of the shot that is fired; phase, before main.
// Each is answered with a line that begins with its word. At start it tells "ready PID".
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vitrine/sdt.h>

#include "trace_labels.h"

VITRINE_SEMAPHORE(subject_guarded);

static void show_label(const char* key, const char* value) {
  static __thread struct label label;
  static __thread struct label_set set;
  label = (struct label){{strlen(key), key}, {strlen(value), value}};
  set = (struct label_set){&label, 1, 1};
  custom_labels_current_set = &set;
  __asm__ volatile("" ::: "memory");  // a probe is no reason for the compiler to store it
}

static void show_none(void) {
  __asm__ volatile("" ::: "memory");
  custom_labels_current_set = NULL;
}

__attribute__((noinline)) static void shoot(int number, const char* text) {
  VITRINE_TYPED_PROBE(subject, shot, (number, number), (text, text), (ratio, number * 0.5));
}

__attribute__((noinline)) static void shoot_elsewhere(long number, const char* text) {
  VITRINE_TYPED_PROBE(subject, shot, (number, number), (text, text), (ratio, (double)number * 0.5));
}

static void fire(int count) {
  char text[32];
  for (int i = 0; i < count; ++i) {
    snprintf(text, sizeof text, "shot %d", i);
    show_label("shot", text);
    if (i % 2)
      shoot_elsewhere(i, text);
    else
      shoot(i, text);
    if (VITRINE_SEMAPHORE_ENABLED(subject_guarded))
      VITRINE_SHARED_PROBE(subject_guarded, subject, guarded, i);
  }
  show_none();
}

/// The second label is too long, and comes again: as a writer shows one that it is replacing.
static void fire_under_large_labels(void) {
  static char large[5000];
  memset(large, 'x', sizeof large);
  const struct label labels[] = {{{6, "tenant"}, {4, "acme"}},
                                 {{4, "body"}, {sizeof large, large}},
                                 {{4, "body"}, {8, "outdated"}},
                                 {{5, "route"}, {4, "/pay"}}};
  const struct label_set set = {labels, 4, 4};
  custom_labels_current_set = &set;
  shoot(1, "large");
  show_none();
}

static void fire_under_a_null_value(void) {
  const struct label labels[] = {{{6, "tenant"}, {0, NULL}}, {{6, "tenant"}, {8, "outdated"}}};
  const struct label_set set = {labels, 2, 2};
  custom_labels_current_set = &set;
  shoot(1, "null");
  show_none();
}

/// Plain arguments: numbers, text with a NUL in it, no text, and a structure.
static void fire_values(void) {
  static const struct {
    long long id;
    const char* name;
    int small;
  } record = {-5, "inner", -2};
  static const char text[] = "ab\0cd";
  VITRINE_PROBE(subject, values, -1, &text[0], 5UL, (const char*)NULL, &record);
}

static void fork_and_fire(int count) {
  const pid_t child = fork();
  if (child == 0) {
    fire(count);
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  printf("fork %d %d\n", child, status);
}

static void daemonise_and_fire(int count) {
  const pid_t middle = fork();
  if (middle != 0) {
    waitpid(middle, NULL, 0);
    return;
  }
  const pid_t parent = getpid();
  if (fork() != 0) _exit(0);
  while (getppid() == parent) usleep(1000);
  fire(count);
  printf("daemon %d\n", getpid());
  for (;;) {
    usleep(1000);
    fire(1);
  }
}

static void run(char* command) {
  const pid_t child = fork();
  if (child == 0) {
    fclose(stdin);
    execl("/proc/self/exe", "trace_subject", command, "quit", NULL);
    _exit(1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  printf("run %d %d\n", child, status);
}

typedef void plugin_function(int);

static plugin_function* plugin_call_of(void* library) {
  plugin_function* call = NULL;
  *(void**)&call = library ? dlsym(library, "plugin_call") : NULL;
  return call;
}

static void open_library(const char* path) {
  plugin_function* call = plugin_call_of(dlopen(path, RTLD_NOW));
  if (call) call(1);
  printf("open %s\n", call ? "well" : dlerror());
}

static void again(const char* path, int count) {
  plugin_function* call = plugin_call_of(dlopen(path, RTLD_NOW | RTLD_NOLOAD));
  for (int i = 0; call && i < count; ++i) call(i);
}

static int obey_input(void);

static void* go_on(void* unused) {
  obey_input();
  for (;;) pause();
  return unused;
}

static void leave(void) {
  pthread_t other;
  if (pthread_create(&other, NULL, go_on, NULL) == 0) pthread_exit(NULL);
}

static int obey(char* line);

static void* obey_here(void* line) {
  obey(line);
  return NULL;
}

// On a thread of its own.
static void obey_there(char* line) {
  pthread_t other;
  if (pthread_create(&other, NULL, obey_here, line) == 0) pthread_join(other, NULL);
}

static char library[4096];

static int obey(char* line) {
  line[strcspn(line, "\n")] = '\0';
  char* rest = strchr(line, ' ');
  if (rest) *rest++ = '\0';
  const int number = rest ? atoi(rest) : 0;
  if (!strcmp(line, "fire")) {
    fire(number);
    puts("fire");
  } else if (!strcmp(line, "values")) {
    fire_values();
    puts("values");
  } else if (!strcmp(line, "large")) {
    fire_under_large_labels();
    puts("large");
  } else if (!strcmp(line, "null")) {
    fire_under_a_null_value();
    puts("null");
  } else if (!strcmp(line, "rate")) {
    for (int i = 0; i < number; ++i) shoot(i, "rate");
    puts("rate");
  } else if (!strcmp(line, "fork") && rest) {
    fork_and_fire(number);
  } else if (!strcmp(line, "daemon") && rest) {
    daemonise_and_fire(number);
  } else if (!strcmp(line, "run") && rest) {
    run(rest);
  } else if (!strcmp(line, "exec") && rest) {
    execl("/proc/self/exe", "trace_subject", rest, NULL);
    return 1;
  } else if (!strcmp(line, "thread") && rest) {
    obey_there(rest);
  } else if (!strcmp(line, "become") && rest) {
    execl(rest, "trace_subject", NULL);
    return 1;
  } else if (!strcmp(line, "open") && rest) {
    snprintf(library, sizeof library, "%s", rest);
    open_library(library);
  } else if (!strcmp(line, "again")) {
    again(library, number);
    puts("again");
  } else if (!strcmp(line, "state")) {
    printf("state %u\n", *(volatile unsigned short*)&subject_guarded);
  } else if (!strcmp(line, "leave")) {
    leave();
  } else if (!strcmp(line, "crash")) {
    abort();
  } else if (!strcmp(line, "quit")) {
    return 0;
  } else {
    printf("unknown %s\n", line);
  }
  return -1;
}

static int obey_input(void) {
  int status = -1;
  char line[4096];
  while (status < 0 && fgets(line, sizeof line, stdin)) status = obey(line);
  return status < 0 ? 0 : status;
}

// Before main: whoever traces from the first instruction sees it.
__attribute__((constructor)) static void begin(void) {
  show_label("phase", "begin");
  VITRINE_PROBE(subject, begin);
  show_none();
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  printf("ready %d\n", getpid());
  int status = -1;
  for (int i = 1; i < argc && status < 0; ++i) status = obey(argv[i]);
  return status < 0 ? obey_input() : status;
}
