/* Threads and processes in numbers, and in a hurry. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trick.h"

__attribute__((noreturn)) static int wait_for_ever(void* unused) {
  (void)unused;
  for (;;) syscall(SYS_pause);
}

/* HOSTILE_THREADS threads, or as many as the machine stands, of a page of stack each. */
static void many(void) {
  const char* asked = getenv("HOSTILE_THREADS");
  const int most = asked != NULL ? atoi(asked) : 10000;
  char* stacks = pages((size_t)most, PROT_READ | PROT_WRITE);
  int made = 0;
  while (made < most &&
         clone(wait_for_ever, stacks + ((size_t)made + 1) * page,
               CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM,
               NULL) > 0)
    ++made;
  dprintf(1, "note %d threads\n", made + 1);
}

static void* end_at_once(void* unused) {
  static __thread struct set empty;
  custom_labels_current_set = &empty;
  return unused;
}

static void start_without_end(void* unused) {
  (void)unused;
  for (;;) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, end_at_once, NULL) != 0) continue;
    pthread_join(thread, NULL);
    count();
  }
}

static void come_and_go(void) {
  for (int i = 0; i < 4; ++i) in_thread(start_without_end, NULL);
}

/* Processes whose parents have ended come to this one: where the first process of a machine is slow, theirs would soon be all
 * numbers that there are. */
static void fork_storm(void) {
  must(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0, "prctl");
  ready();
  for (int alive = 0;;) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (fork() == 0) _exit(0);
      _exit(0);
    }
    if (child > 0) alive += 2;
    pid_t ended;
    while ((ended = waitpid(-1, NULL, alive > 16 ? 0 : WNOHANG)) > 0) --alive;
    if (ended < 0) alive = 0; /* one could not fork */
    count();
  }
}

static void exec_storm(void) {
  if (getenv("HOSTILE_AGAIN") == NULL) {
    ready();
    setenv("HOSTILE_AGAIN", "1", 1);
  }
  count();
  rest_us(1000);
  char* const again[] = {(char*)"hostile_target", (char*)"exec-storm", NULL};
  execv("/proc/self/exe", again);
  must(0, "execv");
}

/* It executes itself from a thread that is not its leader: the others end, and its id changes. */
static void exec_of_thread(void* unused) {
  (void)unused;
  rest_us(2000);
  char* const again[] = {(char*)"hostile_target", (char*)"exec-storm-of-threads", NULL};
  execv("/proc/self/exe", again);
  must(0, "execv");
}

static void exec_storm_of_threads(void) {
  if (getenv("HOSTILE_AGAIN") == NULL) {
    ready();
    setenv("HOSTILE_AGAIN", "1", 1);
  }
  for (int i = 0; i < 3; ++i) in_thread(start_without_end, NULL);
  in_thread(exec_of_thread, NULL);
  count_on();
}

/* Ends while it is looked at, its threads in the midst of everything. */
static void exit_soon(void) {
  for (int i = 0; i < 3; ++i) in_thread(start_without_end, NULL);
  ready();
  const char* after = getenv("HOSTILE_MILLISECONDS");
  rest_us((after != NULL ? atol(after) : 20) * 1000);
  _exit(0);
}

static void count_in_thread(void* unused) {
  (void)unused;
  count_on();
}

static void leader_gone(void) {
  in_thread(count_in_thread, NULL);
  in_thread(start_without_end, NULL);
  ready();
  pthread_exit(NULL);
}

/* The next process or thread of the machine gets this number, if nobody is faster. */
static void take_next_number(pid_t number) {
  FILE* last = fopen("/proc/sys/kernel/ns_last_pid", "w");
  if (last == NULL) cannot("no checkpointing in this kernel, or no root");
  fprintf(last, "%d", (int)number - 1);
  fclose(last);
}

static char owner[] = "mine";
enum { numbers_reused = 6 };
static pid_t numbers[numbers_reused];
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static void* note_number(void* number) {
  *(pid_t*)number = (pid_t)syscall(SYS_gettid);
  rest_us(20000);
  return NULL;
}

static void* be_followed(void* number) {
  if ((pid_t)syscall(SYS_gettid) == *(pid_t*)number) rest_us(20000);
  return NULL;
}

static void show_owner(void* unused) {
  (void)unused;
  custom_labels_current_set = set_of_one(text("owner"), text(owner));
  for (;;) rest_us(100000);
}

/* The thread that readers follow, as the leader has ended, ends too, and a fork gets its number: of
 * the same AT_RANDOM, with other labels at the same addresses. */
static void reuse_number(void* number) {
  rest_us(20000); /* no thread that stays gets one of the numbers */
  for (;;) {
    pthread_t thread;
    pthread_mutex_lock(&one_at_a_time);
    take_next_number(*(pid_t*)number);
    const int made = pthread_create(&thread, NULL, be_followed, number);
    pthread_mutex_unlock(&one_at_a_time);
    if (made == 0) pthread_join(thread, NULL);
    pthread_mutex_lock(&one_at_a_time);
    take_next_number(*(pid_t*)number);
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      memcpy(owner, "fork", 4);
      rest_us(20000);
      _exit(0);
    }
    pthread_mutex_unlock(&one_at_a_time);
    waitpid(child, NULL, 0);
    count();
  }
}

static void ids_reused(void) {
  pthread_t threads[numbers_reused];
  for (int i = 0; i < numbers_reused; ++i)
    must(pthread_create(&threads[i], NULL, note_number, &numbers[i]) == 0, "pthread_create");
  for (int i = 0; i < numbers_reused; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < 4; ++i) in_thread(show_owner, NULL);
  for (int i = 0; i < numbers_reused; ++i) in_thread(reuse_number, &numbers[i]);
  ready();
  pthread_exit(NULL);
}

static void vfork_parent(void) {
  in_thread(count_in_thread, NULL);
  ready();
  const pid_t child = vfork();
  if (child == 0) {
    for (;;) syscall(SYS_pause);
  }
}

static void zombies(void) {
  for (int i = 0; i < 50; ++i)
    if (fork() == 0) _exit(0);
}

const struct trick thread_tricks[] = {{"threads-many", many},
                                      {"threads-come-and-go", come_and_go},
                                      {"fork-storm", fork_storm},
                                      {"exec-storm", exec_storm},
                                      {"exec-storm-of-threads", exec_storm_of_threads},
                                      {"exits-while-read", exit_soon},
                                      {"leader-gone", leader_gone},
                                      {"thread-ids-reused", ids_reused},
                                      {"vfork-parent", vfork_parent},
                                      {"parent-of-zombies", zombies},
                                      {NULL, NULL}};
