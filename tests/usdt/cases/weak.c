// Names of functions that are not their addresses: weak ones, aliases, those chosen at load time.
#include <stdio.h>

#include "here.h"
#include "probes.h"

int overridden(int n);
__attribute__((weak, noinline)) int overridden(int n) {
  CASES_DEAD(n);
  HERE(cases_dead);
  return -1;
}

static __attribute__((noinline)) int original(int n) {
  CASES_START(n);
  HERE(cases_start);
  return n;
}
int aliased(int n) __attribute__((alias("original")));

static int chosen(int n) {
  CASES_TICK(n);
  HERE(cases_tick);
  return n;
}
static int (*choose(void))(int) {
  return chosen;
}
int by_loader(int n) __attribute__((ifunc("choose")));

__attribute__((visibility("protected"), noinline)) int guarded(int n);
int guarded(int n) {
  CASES_DONE(n);
  HERE(cases_done);
  return n;
}

int main(void) {
  printf("%d %d %d %d\n", overridden(1), aliased(2), by_loader(3), guarded(4));
  return 0;
}
