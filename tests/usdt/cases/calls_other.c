// Fires on its own, and calls a function of another file.
#include <stdio.h>

#include "here.h"
#include "probes.h"

int other(int n);
int calls_other(int n);
int calls_other(int n) {
  CASES_CALLED(n);
  HERE(cases_called);
  return other(n);
}

#ifdef MAIN
int main(void) {
  printf("called %d\n", calls_other(1));
  return 0;
}
#endif
