// The other object: a static function of the same name as one.c's.
#include "matrix_subject.h"

static __attribute__((noinline)) int same(int n) {
  printf("matrix:none\nother:one %d %d\n", n, n * 2);
  MATRIX_NONE();
  HERE(matrix_none);
  OTHER_ONE(n, n * 2);
  HERE(other_one);
  return n;
}

int second(int n) {
  inlined(n + 10);
  return same(n);
}
