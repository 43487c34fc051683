// A program with one probe, which calls CALL if there is such.
#include <stdio.h>

#include "here.h"
#include "probes.h"

#ifndef LIVE
#define LIVE live
#endif
#ifdef CALL
void CALL(void);
#endif

static __attribute__((noinline)) void LIVE(int n) {
  CASES_LIVE(n);
  HERE(cases_live);
  printf("live %d\n", n);
}

int main(void) {
  LIVE(1);
#ifdef CALL
  CALL();
#endif
  return 0;
}
