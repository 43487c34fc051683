/* Targets for the tests of what reading does to a process, and of processes that are hard to read:
 *
 *   observe_subject KIND
 *
 * Each thread has the label tid=<its own thread id> in force (custom-labels v1, written from the
 * byte table), so labels of another thread show. Prints "ready"; then, for each line it is sent, a
 * line.
 *
 *   signals   counts the SIGRTMIN it gets, and the calls of its threads that end with EINTR;
 *             a line: "COUNT RESTARTABLE OTHER": of read, nanosleep, poll; of epoll_wait
 *   vfork     a thread waits for its vfork child, which sleeps; a line: whether it has come back
 *   vforks    a thread has one vfork child after the other, each of which sleeps for 600 ms
 *   churn     threads start and end all the time; a line: how many have
 *   exec      a line: executes itself as `exec2`, whose label is generation=2
 *   work      four threads count; a line: the counts
 *   spin      its threads, two, use the processor all the time; a line: loads the library with that
 *             name, or executes itself as `spin` with the label generation=2 ("exec")
 *   uring     a worker of io_uring polls for the main thread
 *   null      a thread has the labels tenant=(null), tenant=outdated and route=/pay, and uses the processor
 *   unmapped  a thread has unmapped its thread-local memory, as detached threads of musl do at their end
 *   edit      a thread sleeps with the label n=0 in force; a line: the main thread, which does not
 *             have that set in force, counts n up in place, and says what it is now
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct string {
  uint64_t size;
  const char* data;
};
struct label {
  struct string key, value;
};
struct set {
  struct label* labels;
  uint64_t count, capacity;
};

__attribute__((used)) const uint32_t custom_labels_abi_version = 1;
__thread struct set* volatile custom_labels_current_set;

static __thread struct {
  struct set set;
  struct label label;
  char value[16];
} own;

static void put_in_force(const char* key, const char* value) {
  snprintf(own.value, sizeof own.value, "%s", value);
  own.label = (struct label){{strlen(key), key}, {strlen(own.value), own.value}};
  own.set = (struct set){&own.label, 1, 1};
  __asm__ volatile("" ::: "memory");
  custom_labels_current_set = &own.set;
}

static atomic_int labelled;

static void show_tid(void) {
  char text[16];
  snprintf(text, sizeof text, "%d", (int)syscall(SYS_gettid));
  put_in_force("tid", text);
  atomic_fetch_add(&labelled, 1);
}

/* Returns once the thread has its label. */
static void start(void* (*run)(void*), void* argument) {
  pthread_t thread;
  const int before = atomic_load(&labelled);
  if (pthread_create(&thread, NULL, run, argument) != 0) abort();
  pthread_detach(thread);
  while (atomic_load(&labelled) == before) sched_yield();
}

/* --- signals */
static atomic_long received, restartable, other;

static void count_signal(int number) {
  (void)number;
  atomic_fetch_add(&received, 1);
}

static void note(int failed, atomic_long* counter) {
  if (failed && errno == EINTR) atomic_fetch_add(counter, 1);
}

static void block_signals(void) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
}

static void* reads(void* ends) {
  char byte;
  block_signals();
  show_tid();
  for (;;) note(read(((int*)ends)[0], &byte, 1) < 0, &restartable);
  return ends;
}

static void* sleeps(void* unused) {
  const struct timespec pause = {3600, 0};
  block_signals();
  show_tid();
  for (;;) note(nanosleep(&pause, NULL) < 0, &restartable);
  return unused;
}

static void* polls(void* ends) {
  struct pollfd wait = {((int*)ends)[0], POLLIN, 0};
  block_signals();
  show_tid();
  for (;;) note(poll(&wait, 1, 3600 * 1000) < 0, &restartable);
  return ends;
}

static void* epolls(void* ends) {
  struct epoll_event event = {.events = EPOLLIN};
  const int set = epoll_create1(0);
  epoll_ctl(set, EPOLL_CTL_ADD, ((int*)ends)[0], &event);
  block_signals();
  show_tid();
  for (;;) note(epoll_wait(set, &event, 1, -1) < 0, &other);
  return ends;
}

static void signals(void) {
  static int ends[2];
  struct sigaction action = {.sa_handler = count_signal, .sa_flags = SA_RESTART};
  sigaction(SIGRTMIN, &action, NULL);
  if (pipe(ends) != 0) abort();
  start(reads, ends);
  start(sleeps, NULL);
  start(polls, ends);
  start(epolls, ends);
}

/* --- vfork */
static atomic_int back;

static void* vforks(void* unused) {
  show_tid();
  const pid_t child = vfork();
  if (child == 0) {
    const struct timespec pause = {3, 0};
    nanosleep(&pause, NULL);
    _exit(0);
  }
  atomic_store(&back, 1);
  for (;;) pause();
  return unused;
}

static void* vforks_again(void* unused) {
  show_tid();
  for (;;) {
    const pid_t child = vfork();
    if (child == 0) {
      const struct timespec pause = {0, 600 * 1000 * 1000};
      nanosleep(&pause, NULL);
      _exit(0);
    }
    waitpid(child, NULL, 0);
  }
  return unused;
}

/* --- churn */
static atomic_long ended;

static void* lives_shortly(void* unused) {
  show_tid();
  atomic_fetch_add(&ended, 1);
  return unused;
}

static void* churns(void* unused) {
  show_tid();
  for (;;) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, lives_shortly, NULL) == 0) pthread_join(thread, NULL);
  }
  return unused;
}

/* --- work */
static atomic_long counts[4];

static void* works(void* counter) {
  show_tid();
  for (;;) {
    atomic_fetch_add((atomic_long*)counter, 1);
    const struct timespec pause = {0, 100000};
    nanosleep(&pause, NULL);
  }
  return counter;
}

/* --- edit */
static char* volatile edited;

static void* shows_n(void* argument) {
  put_in_force("n", "0");
  edited = own.value;
  atomic_fetch_add(&labelled, 1);
  for (;;) pause();
  return argument;
}

/* --- spin */
static void* spins(void* unused) {
  show_tid();
  for (;;) atomic_fetch_add(&counts[0], 1);
  return unused;
}

static void spin(char** argv) {
  if (argv[2] != NULL) put_in_force("generation", argv[2]);
  start(spins, NULL);
  puts("ready");
  fflush(stdout);
  struct pollfd input = {0, POLLIN, 0};
  char line[64];
  for (;;) {
    atomic_fetch_add(&counts[0], 1);
    if (poll(&input, 1, 0) == 0) continue;
    if (fgets(line, sizeof line, stdin) == NULL) exit(0);
    line[strcspn(line, "\n")] = 0;
    if (strcmp(line, "exec") == 0) execl("/proc/self/exe", argv[0], "spin", "2", (char*)NULL);
    puts(dlopen(line, RTLD_NOW) != NULL ? "loaded" : "failed");
    fflush(stdout);
  }
}

/* --- uring */
static void make_worker(void) {
  struct io_uring_params how;
  memset(&how, 0, sizeof how);
  how.flags = IORING_SETUP_SQPOLL;
  how.sq_thread_idle = 60000;
  const int ring = (int)syscall(SYS_io_uring_setup, 8, &how);
  if (ring >= 0) syscall(SYS_io_uring_enter, ring, 0, 0, IORING_ENTER_SQ_WAKEUP, NULL, 0);
}

/* --- null */
static void* has_null(void* unused) {
  static struct label labels[] = {
      {{6, "tenant"}, {0, NULL}}, {{6, "tenant"}, {8, "outdated"}}, {{5, "route"}, {4, "/pay"}}};
  static struct set set = {labels, 3, 3};
  block_signals();
  custom_labels_current_set = &set;
  atomic_fetch_add(&labelled, 1);
  for (;;)
    for (volatile int i = 0; i < 1000000; ++i)
      if (i == 999999) nanosleep(&(struct timespec){0, 1000000}, NULL);
  return unused;
}

/* --- unmapped */
enum { own_memory = 1 << 16 };

static int unmaps_its_own(void* memory) {
  /* From the first call on nothing may touch what is thread-local. */
#if defined(__x86_64__)
  register long call __asm__("rax") = SYS_munmap;
  register void* at __asm__("rdi") = memory;
  register long bytes __asm__("rsi") = own_memory;
  __asm__ volatile("syscall\n1: movl %[pause], %%eax\n syscall\n jmp 1b"
                   : "+r"(call), "+r"(at), "+r"(bytes)
                   : [pause] "i"(SYS_pause)
                   : "rcx", "r11", "memory");
#elif defined(__aarch64__)
  register long call __asm__("x8") = SYS_munmap;
  register void* at __asm__("x0") = memory;
  register long bytes __asm__("x1") = own_memory;
  __asm__ volatile(
      "svc 0\n1: mov x8, %[ppoll]\n mov x0, 0\n mov x1, 0\n mov x2, 0\n mov x3, 0\n svc 0\n b 1b"
      : "+r"(call), "+r"(at), "+r"(bytes)
      : [ppoll] "i"(SYS_ppoll)
      : "x2", "x3", "memory");
#endif
  return 0;
}

/* By clone: libc has the kernel write to what is thread-local of its own threads (rseq). */
static void start_unmapped(void) {
  static _Alignas(16) char stack[1 << 16];
  char* memory = mmap(NULL, own_memory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) abort();
  char* thread_pointer = memory + own_memory / 2;
  *(void**)thread_pointer = thread_pointer;
  const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                    CLONE_SYSVSEM | CLONE_SETTLS;
  if (clone(unmaps_its_own, stack + sizeof stack, flags, memory, NULL, thread_pointer) < 0) abort();
}

int main(int argc, char** argv) {
  char line[64];
  const char* kind = argc > 1 ? argv[1] : "";
  show_tid();
  if (strcmp(kind, "spin") == 0) spin(argv);
  if (strcmp(kind, "signals") == 0) signals();
  if (strcmp(kind, "vfork") == 0) start(vforks, NULL);
  if (strcmp(kind, "vforks") == 0) start(vforks_again, NULL);
  if (strcmp(kind, "churn") == 0) start(churns, NULL);
  if (strcmp(kind, "exec2") == 0) put_in_force("generation", "2");
  if (strcmp(kind, "edit") == 0) start(shows_n, NULL);
  if (strcmp(kind, "unmapped") == 0) start_unmapped();
  if (strcmp(kind, "uring") == 0) make_worker();
  if (strcmp(kind, "null") == 0) start(has_null, NULL);
  if (strcmp(kind, "work") == 0)
    for (int i = 0; i < 4; ++i) start(works, &counts[i]);
  puts("ready");
  fflush(stdout);
  for (;;) {
    if (fgets(line, sizeof line, stdin) == NULL) {
      if (feof(stdin)) return 0;
      clearerr(stdin);
      continue;
    }
    if (strcmp(kind, "exec") == 0) {
      execl("/proc/self/exe", argv[0], "exec2", (char*)NULL);
      return 1;
    }
    if (strcmp(kind, "signals") == 0)
      printf("%ld %ld %ld\n", atomic_load(&received), atomic_load(&restartable),
             atomic_load(&other));
    if (strcmp(kind, "vfork") == 0) printf("%d\n", atomic_load(&back));
    if (strcmp(kind, "churn") == 0) printf("%ld\n", atomic_load(&ended));
    if (strcmp(kind, "work") == 0)
      printf("%ld %ld %ld %ld\n", counts[0], counts[1], counts[2], counts[3]);
    if (strcmp(kind, "edit") == 0) {
      edited[0] = edited[0] == '9' ? '0' : (char)(edited[0] + 1);
      printf("%c\n", edited[0]);
    }
    fflush(stdout);
  }
}
