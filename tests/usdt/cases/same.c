// Functions of the same instructions, once their probes are nops.
#include <stdio.h>

#include "probes.h"

__attribute__((noinline)) void first(int n);
__attribute__((noinline)) void second(int n);
__attribute__((noinline)) void third(int n);
__attribute__((noinline)) void fourth(int n);

volatile int total;

void first(int n) {
  CASES_START(n);
  total += n;
}
void second(int n) {
  CASES_DONE(n);
  total += n;
}
void third(int n) {
  CASES_TICK(n);
  total += n;
}
void fourth(int n) {
  CASES_TICK(n);
  total += n;
}

int main(void) {
  first(0);
  second(1);
  third(2);
  fourth(3);
  printf("%d\n", total);
  return 0;
}
