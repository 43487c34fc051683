#include "here.h"
#include "probes.h"

static __attribute__((noinline, used)) void twice(int n) {
  CASES_OTHER(n);
  HERE(cases_other);
}
