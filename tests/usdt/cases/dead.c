#include "here.h"
#include "probes.h"

void dead(int n);
void dead(int n) {
  CASES_DEAD(n);
  HERE(cases_dead);
}
