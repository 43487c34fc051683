/* A process for the tests to observe. Commands on standard input, one a line, each answered by a line:
 *   memory        "ADDRESS": a page, readable, that holds the bytes 0, 1, …, 255, …; the page after
 *                 it is unmapped
 *   withheld N    "ADDRESS": N pages that a userfaultfd has and nobody serves; the page before them is
 *                 the one that memory makes. "no": this kernel lets us have none
 *   serve         "served": now they come, all zeros
 *   thread NAME   "TID TP": starts a thread of that name, which waits
 *   join          "joined": ends the thread started last
 *   leader-exit   no answer: ends the main thread only; the others stay, and serve nothing more
 *   zombie        "PID": a child that has ended and is not waited for
 *   exec PROGRAM  executes it
 *   undumpable    "done": as a setuid program would be
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { page = 4096, threads_max = 256 };

static pthread_t thread[threads_max];
static int threads;
static int wake[threads_max][2];
static char name[16];

static void* wait_in_thread(void* argument) {
  int* pipes = argument;
  char byte;
  prctl(PR_SET_NAME, name);
  printf("%d %p\n", (int)syscall(SYS_gettid), __builtin_thread_pointer());
  fflush(stdout);
  while (read(pipes[0], &byte, 1) > 0) {
  }
  return NULL;
}

static void start_thread(const char* wanted) {
  snprintf(name, sizeof name, "%s", wanted);
  if (threads == threads_max || pipe(wake[threads]) != 0) exit(2);
  if (pthread_create(&thread[threads], NULL, wait_in_thread, wake[threads]) != 0) exit(2);
  ++threads;
}

static void join(void) {
  --threads;
  close(wake[threads][1]);
  pthread_join(thread[threads], NULL);
  puts("joined");
}

static void map_pattern(void) {
  unsigned char* at =
      mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < page; ++i) at[i] = (unsigned char)i;
  munmap(at + page, page);
  printf("%p\n", (void*)at);
}

static int served_by = -1;
static struct uffdio_range withheld;

static void withhold(unsigned long pages) {
  struct uffdio_api api = {.api = UFFD_API};
  unsigned char* at =
      mmap(NULL, (pages + 1) * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < page; ++i) at[i] = (unsigned char)i;
  withheld = (struct uffdio_range){(unsigned long)at + page, pages * page};
  struct uffdio_register range = {.range = withheld, .mode = UFFDIO_REGISTER_MODE_MISSING};
  served_by = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
  if (served_by < 0 || ioctl(served_by, UFFDIO_API, &api) != 0 ||
      ioctl(served_by, UFFDIO_REGISTER, &range) != 0)
    puts("no");
  else
    printf("%p\n", (void*)(at + page));
}

static void serve(void) {
  struct uffdio_zeropage zero = {.range = withheld};
  puts(ioctl(served_by, UFFDIO_ZEROPAGE, &zero) == 0 ? "served" : "no");
}

static void make_zombie(void) {
  const pid_t child = fork();
  siginfo_t ended;
  if (child == 0) _exit(0);
  waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT);
  printf("%d\n", (int)child);
}

int main(void) {
  char line[4096];
  printf("%d %p\n", (int)getpid(), __builtin_thread_pointer());
  fflush(stdout);
  while (fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    char* argument = strchr(line, ' ');
    if (argument != NULL) *argument++ = '\0';
    if (strcmp(line, "memory") == 0) map_pattern();
    if (strcmp(line, "withheld") == 0) withhold(strtoul(argument, NULL, 10));
    if (strcmp(line, "serve") == 0) serve();
    if (strcmp(line, "thread") == 0) start_thread(argument);
    if (strcmp(line, "join") == 0) join();
    if (strcmp(line, "zombie") == 0) make_zombie();
    if (strcmp(line, "leader-exit") == 0) pthread_exit(NULL);
    if (strcmp(line, "exec") == 0) execl(argument, argument, (char*)NULL);
    if (strcmp(line, "undumpable") == 0) {
      prctl(PR_SET_DUMPABLE, 0);
      puts("done");
    }
    fflush(stdout);
  }
  return 0;
}
