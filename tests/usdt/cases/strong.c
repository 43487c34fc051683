#include "here.h"
#include "probes.h"

int overridden(int n);
int overridden(int n) {
  CASES_LIVE(n);
  HERE(cases_live);
  return n;
}
