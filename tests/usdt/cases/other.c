#include "here.h"
#include "probes.h"

int other(int n);
int other(int n) {
  CASES_OTHER(n);
  HERE(cases_other);
  return n;
}
