// Waits; with an argument it fires a probe first, with thread-local arguments, and ends.
#include <stdio.h>
#include <unistd.h>
#include <vitrine/sdt.h>

static __thread int number = 55;
static __thread struct {
  int first;
  short second;
} pair = {1, -7};

int main(int argc, char** argv) {
  (void)argv;
  for (int i = 0; argc > 1 && i < 2; ++i) {
    number += i;
    VITRINE_PROBE(narrow, local, number, pair.second);
  }
  if (argc > 1) return 0;
  puts("ready");
  fflush(stdout);
  pause();
  return 0;
}
