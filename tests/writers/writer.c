/* A program with labels on display: see README.md for its commands and what it prints.
 * -DWRITER_LINKED: slot.c, or a library of it, is linked in. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <vitrine/sdt.h>

#include "process_context.h"
#include "slot.h"

enum { threads_max = 64, libraries_max = 64, path_max = 512 };

struct job {
  const struct writer_slot* slots; /* null: spin */
  int round;                       /* or for how many milliseconds */
};

struct thread {
  char name[32];
  pthread_t id;
  int tid;
  int jobs[2]; /* pipe: to the thread; closing it ends the thread */
  int done[2]; /* pipe: from the thread */
};

static struct thread threads[threads_max];
static pthread_mutex_t output = PTHREAD_MUTEX_INITIALIZER;

static void failed(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  pthread_mutex_lock(&output);
  fputs("failed ", stdout);
  vprintf(format, arguments);
  putchar('\n');
  pthread_mutex_unlock(&output);
  va_end(arguments);
}

static void hex(const void* data, size_t size) {
  const unsigned char* bytes = data;
  if (size == 0) putchar('-');
  for (size_t i = 0; i < size; ++i) printf("%02x", bytes[i]);
}

/* The labels a thread displays in its n-th round: different in each thread and round. */
static const char* const keys[] = {"thread", "tenant", "empty", "round"};
enum { key_count = 4 };

static void publish(const struct writer_slot* slot, int round) {
  const int tid = (int)syscall(SYS_gettid);
  char thread_text[32], round_text[32];
  /* Values are any bytes, in the formats that say so. */
  static const unsigned char binary[] = {'a', 0, 0xff, '\n', 'z'};
  const int takes_any_bytes = slot->has_trace == 0;
  unsigned char trace_id[16], span_id[8];
  snprintf(thread_text, sizeof thread_text, "%d", tid);
  snprintf(round_text, sizeof round_text, "%d", round);
  const struct writer_label label[key_count] = {
      {keys[0], (const unsigned char*)thread_text, strlen(thread_text)},
      {keys[1], takes_any_bytes ? binary : (const unsigned char*)"acm\xc3\xa9", 5},
      {keys[2], (const unsigned char*)"", 0},
      {keys[3], (const unsigned char*)round_text, strlen(round_text)},
  };
  for (int i = 0; i < 16; ++i) trace_id[i] = (unsigned char)(tid + 7 * i + round + 1);
  for (int i = 0; i < 8; ++i) span_id[i] = (unsigned char)(0x80 | (tid + i));
  const struct writer_labels labels = {label, key_count, trace_id, span_id, 1};

  unsigned char* block = calloc(1, writer_block_bytes);
  if (block == NULL) abort();
  slot->publish(block, &labels);

  void* at = slot->address();
  pthread_mutex_lock(&output);
  printf("slot %d %s %p\n", tid, slot->format, at);
  for (size_t i = 0; slot->has_attributes && i < key_count; ++i) {
    printf("label %d %p ", tid, at);
    hex(label[i].key, strlen(label[i].key));
    putchar(' ');
    hex(label[i].value, label[i].size);
    putchar('\n');
  }
  if (slot->has_trace) {
    printf("trace %d %p ", tid, at);
    hex(trace_id, sizeof trace_id);
    putchar(' ');
    hex(span_id, sizeof span_id);
    printf(slot->has_trace == 2 ? " %02x\n" : " -\n", labels.flags);
  }
  pthread_mutex_unlock(&output);
}

static void publish_all(struct job job) {
  for (const struct writer_slot* slot = job.slots; slot->format != NULL; ++slot)
    publish(slot, job.round);
}

static void introduce(const char* name) {
  pthread_mutex_lock(&output);
  printf("thread %d %p %s\n", (int)syscall(SYS_gettid), __builtin_thread_pointer(), name);
  pthread_mutex_unlock(&output);
}

/* Keeps a CPU busy, after it has fired a probe. */
static void spin(int milliseconds) {
  struct timespec begin, now;
  if (milliseconds > 0) VITRINE_PROBE(writer, spin, milliseconds);
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do {
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 <
           milliseconds);
}

static void* serve(void* argument) {
  struct thread* self = argument;
  struct job job;
  self->tid = (int)syscall(SYS_gettid);
  introduce(self->name);
  if (write(self->done[1], "", 1) != 1) abort();
  while (read(self->jobs[0], &job, sizeof job) == (ssize_t)sizeof job) {
    if (job.slots == NULL) {
      spin(job.round);
      continue;
    }
    publish_all(job);
    if (write(self->done[1], "", 1) != 1) abort();
  }
  return NULL;
}

static void await(struct thread* thread) {
  char byte;
  if (read(thread->done[0], &byte, 1) != 1) abort();
}

static struct thread* find_thread(const char* name) {
  for (int i = 0; i < threads_max; ++i)
    if (strcmp(threads[i].name, name) == 0) return &threads[i];
  return NULL;
}

static void start(const char* name) {
  struct thread* thread = find_thread("");
  if (thread == NULL || pipe(thread->jobs) != 0 || pipe(thread->done) != 0) {
    failed("no more threads");
    return;
  }
  snprintf(thread->name, sizeof thread->name, "%s", name);
  if (pthread_create(&thread->id, NULL, serve, thread) != 0) {
    failed("cannot start a thread");
    return;
  }
  await(thread);
}

static void end(const char* name) {
  struct thread* thread = find_thread(name);
  if (thread == NULL) {
    failed("no thread %s", name);
    return;
  }
  close(thread->jobs[1]);
  pthread_join(thread->id, NULL);
  close(thread->jobs[0]);
  close(thread->done[0]);
  close(thread->done[1]);
  printf("gone %d\n", thread->tid);
  thread->name[0] = '\0';
}

#ifndef WRITER_NO_DLOPEN
static struct library {
  char path[path_max];
  void* handle;
} libraries[libraries_max];

static void remember(const char* path, void* handle) {
  for (int i = 0; handle != NULL && i < libraries_max; ++i)
    if (libraries[i].handle == NULL) {
      snprintf(libraries[i].path, path_max, "%s", path);
      libraries[i].handle = handle;
      return;
    }
  failed("%s", handle == NULL ? dlerror() : "too many libraries");
}

static void open_library(const char* how, const char* path) {
#ifdef LM_ID_NEWLM
  if (strcmp(how, "namespace") == 0) {
    remember(path, dlmopen(LM_ID_NEWLM, path, RTLD_NOW));
    return;
  }
#endif
  remember(path, dlopen(path, RTLD_NOW | (strcmp(how, "local") == 0 ? RTLD_LOCAL : RTLD_GLOBAL)));
}

static struct library* find_library(const char* path) {
  for (int i = 0; i < libraries_max; ++i)
    if (libraries[i].handle != NULL && strcmp(libraries[i].path, path) == 0) return &libraries[i];
  return NULL;
}

static void close_library(const char* path) {
  struct library* library = find_library(path);
  if (library == NULL || dlclose(library->handle) != 0) failed("cannot close %s", path);
  if (library != NULL) library->handle = NULL;
}

static const struct writer_slot* slots_of_library(const char* path) {
  struct library* library = find_library(path);
  return library == NULL ? NULL : dlsym(library->handle, "writer_slots");
}
/* Until the program ends. */
static void* open_and_close(void* path) {
  for (;;) {
    void* handle = dlopen(path, RTLD_NOW);
    if (handle != NULL) dlclose(handle);
  }
  return NULL;
}

static void loop(const char* path) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, open_and_close, strdup(path)) != 0) failed("cannot loop");
}
#else
static void loop(const char* path) {
  failed("a static program cannot loop %s", path);
}

static void open_library(const char* how, const char* path) {
  failed("a static program cannot %s %s", how, path);
}

static void close_library(const char* path) {
  failed("a static program cannot close %s", path);
}

static const struct writer_slot* slots_of_library(const char* path) {
  (void)path;
  return NULL;
}
#endif

static const struct writer_slot* slots_of(const char* path) {
#ifdef WRITER_LINKED
  if (strcmp(path, "-") == 0) return writer_slots;
#endif
  return slots_of_library(path);
}

static void let_publish(const char* name, const char* path) {
  static int round;
  const struct job job = {slots_of(path), ++round};
  if (job.slots == NULL) {
    failed("no slots in %s", path);
    return;
  }
  for (const struct writer_slot* slot = job.slots; slot->format != NULL; ++slot)
    if (publish_process_context(slot->format, keys, key_count) != 0)
      failed("cannot publish a process context");
  if (strcmp(name, "main") == 0) {
    publish_all(job);
    return;
  }
  struct thread* thread = find_thread(name);
  if (thread == NULL || write(thread->jobs[1], &job, sizeof job) != (ssize_t)sizeof job) {
    failed("no thread %s", name);
    return;
  }
  await(thread);
}

/* All threads; the main one after it has answered. */
static int spin_main;

static void spin_all(int milliseconds) {
  const struct job job = {NULL, milliseconds};
  for (int i = 0; i < threads_max; ++i)
    if (threads[i].name[0] != '\0' && write(threads[i].jobs[1], &job, sizeof job) < 0) abort();
  spin_main = milliseconds;
}

static void* end_at_once(void* argument) {
  return argument;
}

static void* start_and_end(void* argument) {
  for (;;) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, end_at_once, argument) == 0) pthread_join(thread, NULL);
  }
  return NULL;
}

static void storm(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, start_and_end, NULL) != 0) failed("cannot storm");
}

static void obey(char* line) {
  char* rest = NULL;
  const char* command = strtok_r(line, " \n", &rest);
  const char* first = strtok_r(NULL, " \n", &rest);
  const char* second = strtok_r(NULL, " \n", &rest);
  if (command == NULL || first == NULL) return;
  if (strcmp(command, "thread") == 0)
    start(first);
  else if (strcmp(command, "end") == 0)
    end(first);
  else if (strcmp(command, "publish") == 0 && second != NULL)
    let_publish(first, second);
  else if (strcmp(command, "spin") == 0)
    spin_all(atoi(first));
  else if (strcmp(command, "close") == 0)
    close_library(first);
  else if (strcmp(command, "loop") == 0)
    loop(first);
  else if (strcmp(command, "storm") == 0)
    storm();
  else
    open_library(command, first);
}

int main(void) {
  char line[path_max];
  introduce("main");
  puts("ready");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin) != NULL) {
    obey(line);
    puts("ready");
    fflush(stdout);
    spin(spin_main);
    spin_main = 0;
  }
  return 0;
}
