#include "shared.h"

VITRINE_SEMAPHORE(matrix_shared);
VITRINE_ENUMERATORS(colour, RED, GREEN);

/* Nobody calls it: --gc-sections may take it. */
void uncalled(int n);
void uncalled(int n) {
  VITRINE_PROBE(matrix, uncalled, n);
}

static __attribute__((noinline)) int called(int n, colour c, const char* text) {
  VITRINE_SHARED_TYPED_PROBE(matrix_shared, matrix, shared, VITRINE_ENUM(colour, c, colour), (text),
                             (n));
  return VITRINE_PROBE_ENABLED(matrix, loop) + VITRINE_SEMAPHORE_ENABLED(matrix_shared);
}

/* 0 when all went as it should. Also the entry of the subject as a library. */
int run(int n);
int run(int n) {
#ifdef __cplusplus
  Counter<int> counter = {n};
  Counter<long> wide = {n};
  if (counter.add(n) != 2 * n || wide.add(n) != 2 * n) return 1;
#endif
  if (inline_function(n) != n + 1 || unrolled(n) != 3 * n) return 2;
  if (called(n, GREEN, "text") != 0) return 3;
  return other_file(n) == 5 * n + 1 ? 0 : 4;
}

int main(int argc, char** argv) {
  (void)argv;
  return run(argc);
}
