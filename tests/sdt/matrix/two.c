#include "shared.h"

VITRINE_SEMAPHORE_DECLARE(matrix_shared);

int other_file(int n) {
  VITRINE_SHARED_PROBE(matrix_shared, matrix, shared_too, n);
#ifdef __cplusplus
  Counter<int> counter = {n};
  return inline_function(unrolled(n)) + counter.add(0) + n;
#else
  return inline_function(unrolled(n)) + n + n;
#endif
}
