// Probes of two definitions in one function.
#include <stdio.h>

#include "here.h"
#include "probes.h"
#include "second.h"

int main(void) {
  int fired = 0;
  CASES_START(++fired);
  HERE(cases_start);
  SECOND_BOTH(++fired);
  HERE(second_both);
  printf("both %d\n", fired);
  return 0;
}
