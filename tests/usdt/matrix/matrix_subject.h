// What both files of the subject share.
#ifndef MATRIX_SUBJECT_H
#define MATRIX_SUBJECT_H
#include <stdio.h>

#include "matrix.h"

#if !defined(_DTRACE_VERSION) || _DTRACE_VERSION
/* A label right behind the probe's instructions, so that the test can tell where they are. */
#define HERE(name) __asm__ volatile("here_" #name "_%=:" : :)
#else
#define HERE(name) ((void)0)
#endif

extern volatile int seed;

int subject(void);
int second(int n);
int exported(int n);

static inline void inlined(int n) {
  printf("matrix:one %d\n", n);
  MATRIX_ONE(n);
  HERE(matrix_one);
}
#endif
