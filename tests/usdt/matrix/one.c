// A subject of the object step: probes where compilers put them differently.
#include "matrix_subject.h"

volatile int seed = 3;

static __attribute__((noinline)) int same(int n) {
  printf("matrix:none\n");
  MATRIX_NONE();
  HERE(matrix_none);
  return n + 1;
}

static __attribute__((noinline)) int loop(int n) {
  int sum = 0;
  for (int i = 0; i < n; ++i) {
    printf("matrix:words loop %d %d\n", i, i * 1000);
    MATRIX_WORDS("loop", (long)i, (unsigned long long)i * 1000);
    HERE(matrix_words);
    sum += i;
  }
  return sum;
}

static __attribute__((noinline)) int many(int n) {
  printf("matrix:seven %d %d %d %d %d %d %ld\n", n, n + 1, n + 2, n + 3, n + 4, n + 5,
         (long)n - 10);
  MATRIX_SEVEN(n, n + 1, n + 2, n + 3, n + 4, n + 5, (long)n - 10);
  HERE(matrix_seven);
  return n * 7;
}

static __attribute__((noinline)) int ask(int n) {
  if (MATRIX_ASKED_ENABLED()) {
    printf("matrix:asked %d\n", n);
    MATRIX_ASKED(n);
    HERE(matrix_asked);
    return n * 1000;
  }
  return n;
}

static __attribute__((noinline)) int rarely(int n) {
  if (__builtin_expect(n > 2, 0)) {
    printf("matrix:cold %d\n", n);
    MATRIX_COLD(n);
    HERE(matrix_cold);
    return n * 3;
  }
  return n;
}

static __attribute__((noinline)) void last(int n) {
  printf("matrix:last %d\n", n);
  MATRIX_LAST(n);
  HERE(matrix_last);
}

int exported(int n) {
  printf("matrix:with-dashes %d\nmatrix:with-dashes %d\n", n, n + 1);
  MATRIX_WITH_DASHES(n);
  HERE(matrix_with__dashes);
  MATRIX_WITH_DASHES(n + 1);
  HERE(matrix_with__dashes);
  return n;
}

int subject(void) {
  int sum = same(seed) + loop(seed) + many(seed) + ask(seed) + rarely(seed);
  inlined(seed);
  last(seed);
  sum += exported(seed) + second(seed);
  printf("sum %d\n", sum);
  return 0;
}
