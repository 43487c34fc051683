/* Stacks that are hard to copy or to unwind, in C: frames KIND. Prints "ready", goes on until killed.
 *
 *   alloca    frames whose size only the call knows
 *   signals   the leaf is in a handler that interrupted a leaf
 *   altstack  the same, and the handler has a stack of its own
 *   big       three frames of 24 KiB: more than is copied of a stack unless more is asked for
 *   unused    a frame of 12 KiB that is never written, in a new thread: its pages are not resident
 *   threads   threads that end soon
 *   deep      2000 frames
 *   inlined   functions inlined in functions inlined
 *   context   the leaf is on a stack of makecontext()
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static volatile unsigned sink;

__attribute__((noinline)) static void spin(void) {
  unsigned value = sink;
  for (unsigned n = 0; n < 100000; ++n) value = value * 1664525 + 1013904223;
  sink = value;
}

/* Whatever follows a call keeps its frame from being given to the callee. */
__attribute__((noinline)) static unsigned with_alloca(unsigned depth, unsigned size) {
  unsigned char* room = alloca(size);
  memset(room, (int)depth, size);
  if (depth == 0)
    spin();
  else
    sink += with_alloca(depth - 1, size * 7 % 1000 + 1);
  return room[sink % size];
}

__attribute__((noinline)) static unsigned big_frame(unsigned depth) {
  unsigned char room[24 * 1024];
  memset(room, (int)depth, sizeof room);
  if (depth == 0)
    spin();
  else
    sink += big_frame(depth - 1);
  return room[sink % sizeof room];
}

__attribute__((noinline)) static unsigned unused_frame(void) {
  volatile unsigned char room[12 * 1024];
  spin();
  return sink == 0 ? room[sink] : sink;
}

static void* spin_once(void* argument) {
  spin();
  return argument;
}

static void* call_unused_frame(void* argument) {
  for (;;) sink += unused_frame();
  return argument;
}

__attribute__((noinline)) static unsigned deep(unsigned depth) {
  if (depth == 0)
    spin();
  else
    sink += deep(depth - 1);
  return sink + depth;
}

static void on_signal(int number) {
  (void)number;
  spin();
  sink++;
}

__attribute__((noinline)) static void interrupted(void) {
  for (;;) spin();
}

static void handle_signals(int flags) {
  static char other_stack[64 * 1024];
  const stack_t other = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
  const struct itimerspec often = {{0, 300000}, {0, 300000}};
  sigaltstack(&other, NULL);
  sigaction(SIGUSR1, &action, NULL);
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) abort();
  timer_settime(timer, 0, &often, NULL);
  interrupted();
}

static void run_context(void) {
  static char stack[64 * 1024];
  static ucontext_t before, context;
  if (getcontext(&context) != 0) abort();
  context.uc_stack.ss_sp = stack;
  context.uc_stack.ss_size = sizeof stack;
  context.uc_link = &before;
  makecontext(&context, interrupted, 0);
  swapcontext(&before, &context);
}

__attribute__((always_inline)) static inline unsigned innermost(unsigned value) {
  for (unsigned n = 0; n < 100000; ++n) value = value * 1664525 + 1013904223;
  return value;
}
__attribute__((always_inline)) static inline unsigned middle(unsigned value) {
  return innermost(value ^ 0x5555) + 1;
}
__attribute__((noinline)) static void outer(void) {
  sink = middle(sink) * 3;
}

int main(int argc, char** argv) {
  const char* kind = argc == 2 ? argv[1] : "";
  puts("ready");
  fflush(stdout);
  if (strcmp(kind, "signals") == 0) handle_signals(0);
  if (strcmp(kind, "altstack") == 0) handle_signals(SA_ONSTACK);
  pthread_t thread;
  if (strcmp(kind, "unused") == 0 && pthread_create(&thread, NULL, call_unused_frame, NULL) == 0)
    pthread_join(thread, NULL);
  while (strcmp(kind, "threads") == 0 && pthread_create(&thread, NULL, spin_once, NULL) == 0)
    pthread_join(thread, NULL);
  if (strcmp(kind, "context") == 0) run_context();
  for (;;) {
    if (strcmp(kind, "alloca") == 0)
      with_alloca(12, 321);
    else if (strcmp(kind, "big") == 0)
      big_frame(2);
    else if (strcmp(kind, "deep") == 0)
      deep(2000);
    else if (strcmp(kind, "inlined") == 0)
      outer();
    else
      return 2;
  }
}
