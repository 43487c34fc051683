/* Processes in states that readers do not expect. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trick.h"

/* In a child that ends with us. Returns its id, to us alone. */
static pid_t child_of(void (*run)(void)) {
  const pid_t child = fork();
  must(child >= 0, "fork");
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  run();
  count_on();
}

static void nothing(void) {}

static void nap(void* name) {
  prctl(PR_SET_NAME, name);
  for (;;) rest_us(1000);
}

static void odd_names(void) {
  prctl(PR_SET_NAME, "a) R 1 1\n\x1b[31m");
  in_thread(nap, (void*)") Z 0 (((");
  in_thread(nap, (void*)"\xff\xfe\"\\</script>");
  in_thread(nap, (void*)"");
  in_thread(nap, (void*)"\n\n\n\t\r");
}

/* The end of what the kernel put on the first stack, below the arguments themselves. */
static uintptr_t end_of_first_frame(void) {
  char** pointer = environ;
  while (*pointer != NULL) ++pointer;
  const Elf64_auxv_t* entry = (const Elf64_auxv_t*)(pointer + 1);
  while (entry->a_type != AT_NULL) ++entry;
  return (uintptr_t)(entry + 1);
}

/* The kernel reads the arguments of a process from its memory: from a page that never comes. */
static void arguments_never_come(void) {
  const uintptr_t at = (uintptr_t)program_invocation_name & ~(uintptr_t)(page - 1);
  /* A random distance lies between the stack and the arguments. If it is so short that both are in this page, we
     would wait for it ourselves: begin anew with another distance. */
  if (end_of_first_frame() > at) {
    char name[] = "arguments-never-come";
    execv(program_invocation_name, (char*[]){program_invocation_name, name, NULL});
    must(0, "execv");
  }
  const int descriptor = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
  if (descriptor < 0) cannot("no userfaultfd");
  struct uffdio_api api = {.api = UFFD_API};
  struct uffdio_register range = {.range = {at, page}, .mode = UFFDIO_REGISTER_MODE_MISSING};
  must(ioctl(descriptor, UFFDIO_API, &api) == 0, "UFFDIO_API");
  must(ioctl(descriptor, UFFDIO_REGISTER, &range) == 0, "UFFDIO_REGISTER");
  must(madvise((void*)at, page, MADV_DONTNEED) == 0, "madvise");
}

static void stops_itself(void) {
  ready();
  raise(SIGSTOP);
}

static void stop_and_continue(void) {
  const pid_t target = getpid();
  if (fork() != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) {
    kill(target, SIGSTOP);
    rest_us(200);
    kill(target, SIGCONT);
    rest_us(2000);
  }
}

static void follow_stops(pid_t target, int request) {
  for (;;) {
    int status;
    if (waitpid(target, &status, __WALL) < 0)
      rest_us(1000);
    else if (WIFSTOPPED(status))
      ptrace((enum __ptrace_request)request, target, NULL, NULL);
  }
}

static void traced(void) {
  const pid_t target = child_of(nothing);
  must(ptrace(PTRACE_SEIZE, target, NULL, NULL) == 0, "PTRACE_SEIZE");
  ready_as(target);
  follow_stops(target, PTRACE_SYSCALL);
}

static void held_by_tracer(void) {
  const pid_t target = child_of(nothing);
  must(ptrace(PTRACE_SEIZE, target, NULL, NULL) == 0, "PTRACE_SEIZE");
  rest_us(5000);
  must(ptrace(PTRACE_INTERRUPT, target, NULL, NULL) == 0, "PTRACE_INTERRUPT");
  int status;
  waitpid(target, &status, __WALL);
  ready_as(target);
  for (;;) syscall(SYS_pause);
}

/* A child of the target traces it, at each of its system calls. */
static void traced_by_child(void) {
  const pid_t target = getpid();
  if (fork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    must(ptrace(PTRACE_SEIZE, target, NULL, NULL) == 0, "PTRACE_SEIZE");
    ptrace(PTRACE_INTERRUPT, target, NULL, NULL);
    follow_stops(target, PTRACE_SYSCALL);
  }
  rest_us(20000);
}

static void traces_children(void) {
  const pid_t child = child_of(nothing);
  must(ptrace(PTRACE_SEIZE, child, NULL, NULL) == 0, "PTRACE_SEIZE");
}

static void* be_traced(void* unused) {
  ptrace(PTRACE_TRACEME, 0, NULL, NULL);
  return unused;
}

/* Its exec waits for a thread that has ended to be waited for by its tracer. */
static void execute_for_ever(void) {
  pthread_t thread;
  must(pthread_create(&thread, NULL, be_traced, NULL) == 0, "pthread_create");
  pthread_join(thread, NULL);
  execl("/bin/true", "true", (char*)NULL);
}

static void exec_never_ends(void) {
  const pid_t target = child_of(execute_for_ever);
  rest_us(200000);
  ready_as(target);
  count_on();
}

static void strict_seccomp(void) {
  ready();
  must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0, "seccomp");
  for (;;) {
    for (volatile int i = 0; i < 1000000; ++i) {
    }
    count();
  }
}

/* All system calls but those that it needs are errors. */
static void filter_seccomp(void) {
  struct sock_filter program[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
                                  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_nanosleep, 2, 0),
                                  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 1, 0),
                                  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                                  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const struct sock_fprog filter = {sizeof program / sizeof *program, program};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  ready();
  must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0, "seccomp");
  count_on();
}

static void not_dumpable(void) {
  must(prctl(PR_SET_DUMPABLE, 0) == 0, "PR_SET_DUMPABLE");
}

static void another_user(void) {
  must(setgid(65534) == 0 && setuid(65534) == 0, "setuid");
}

static void on_signal(int number) {
  (void)number;
  count_signal();
}

/* A child queues one real-time signal after the other; how many is seen beside those handled. */
static void signals(void) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigaction(SIGRTMIN, &action, NULL);
  const pid_t target = getpid();
  if (fork() != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) {
    if (sigqueue(target, SIGRTMIN, (union sigval){0}) == 0) count_sent();
    rest_us(100);
    wait_while_asked_to_rest();
  }
}

static void in_a_namespace(void) {
  must(chdir("/") == 0, "chdir");
  mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
  mount("none", "/tmp", "tmpfs", 0, NULL);
  mkdir("/tmp/root", 0700);
  must(chroot("/tmp/root") == 0, "chroot");
}

static void namespaces(void) {
  if (unshare(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) != 0)
    cannot("no namespaces");
  ready_as(child_of(in_a_namespace));
  for (;;) syscall(SYS_pause);
}

static void user_namespace(void) {
  if (unshare(CLONE_NEWUSER) != 0) cannot("no user namespaces");
}

const struct trick process_tricks[] = {{"names-odd", odd_names},
                                       {"arguments-never-come", arguments_never_come},
                                       {"stopped", stops_itself},
                                       {"stops-and-continues", stop_and_continue},
                                       {"traced", traced},
                                       {"held-by-tracer", held_by_tracer},
                                       {"traced-by-its-child", traced_by_child},
                                       {"traces-its-child", traces_children},
                                       {"exec-never-ends", exec_never_ends},
                                       {"seccomp-strict", strict_seccomp},
                                       {"seccomp-filter", filter_seccomp},
                                       {"not-dumpable", not_dumpable},
                                       {"another-user", another_user},
                                       {"signals", signals},
                                       {"namespaces", namespaces},
                                       {"user-namespace", user_namespace},
                                       {NULL, NULL}};
