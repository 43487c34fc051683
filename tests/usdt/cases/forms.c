// Calls as compilers make them of declarations that say nothing about the probes, as other generators'
// headers do.
#include <stdio.h>

#define PROBE(name) __dtrace_cases___##name
#define ENABLED(name) __dtraceenabled_cases___##name
void PROBE(live)(int);
void PROBE(other)(int);
void PROBE(done)(int);
void PROBE(start)(int);
int ENABLED(tick)(void);

void (*volatile taken)(int) = PROBE(start);

static __attribute__((noinline)) void direct(int n) {
  PROBE(live)(n);
  printf("direct %d\n", n);
}

static __attribute__((noinline)) void tail(int n) {
  printf("tail %d\n", n);
  PROBE(other)(n);
}

__attribute__((noinline)) void conditional(int n);
void conditional(int n) {
  if (n > 3) PROBE(done)(n);
}

static __attribute__((noinline)) int asked(void) {
  if (ENABLED(tick)()) return 1;
  return 0;
}

__attribute__((noinline)) int asked_last(void);
int asked_last(void) {
  return ENABLED(tick)();
}

int main(void) {
  direct(1);
  tail(2);
  conditional(3);
  conditional(4);
  taken(5);
  printf("asked %d %d\n", asked(), asked_last());
  return 0;
}
