/* Has a probe of the same name as the program that uses it. */
#include <vitrine/sdt.h>

int library_fires(int n);
int library_fires(int n) {
  VITRINE_PROBE(modules, both, n);
  return VITRINE_PROBE_ENABLED(modules, both);
}
