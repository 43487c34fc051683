/* The semaphore of a program is its own: a library with a probe of the same name has another.
 * Exits 0 when that is so. */
#include <vitrine/sdt.h>

extern volatile unsigned short modules_both_semaphore;
int library_fires(int n);

int main(int argc, char** argv) {
  (void)argv;
  VITRINE_PROBE(modules, both, argc);
  modules_both_semaphore = 1; /* as the kernel does */
  if (!VITRINE_PROBE_ENABLED(modules, both)) return 1;
  return library_fires(argc) ? 2 : 0;
}
