#include <stdio.h>

#include "here.h"
#include "probes.h"

void main_other(void);
void main_other(void) {
  CASES_OTHER(2);
  HERE(cases_other);
  printf("other 2\n");
}
