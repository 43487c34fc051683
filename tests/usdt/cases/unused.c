#include "here.h"
#include "probes.h"

int unused(int n);
int unused(int n) {
  CASES_DEAD(n);
  HERE(cases_dead);
  return n;
}
