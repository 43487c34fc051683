/* A program with probes of every kind of section: guarded, inlined many times, without arguments. */
#define _SDT_HAS_SEMAPHORES 1
#include <stdio.h>
#ifdef WITH_DLOPEN
#include <dlfcn.h>
#endif
#include <sys/sdt.h>

#define SEMAPHORE(name) \
  unsigned short name __attribute__((section(".probes"), visibility("hidden"), used))
SEMAPHORE(subject_guarded_semaphore);
SEMAPHORE(subject_inlined_semaphore);
SEMAPHORE(subject_bare_semaphore);

static inline __attribute__((always_inline)) int inlined(int value, const char* text) {
  STAP_PROBE2(subject, inlined, value, text);
  return value * 3;
}

__attribute__((noinline)) int work(int value) {
  if (subject_guarded_semaphore) STAP_PROBE1(subject, guarded, value);
  STAP_PROBE(subject, bare);
  return inlined(value, "one") + inlined(value + 1, "two");
}

#ifndef AS_LIBRARY
int main(int argc, char** argv) {
#ifdef WITH_DLOPEN
  if (argc > 1 && dlopen(argv[1], RTLD_NOW) == NULL) return 1;
#else
  (void)argv;
#endif
  printf("%d\nready\n", work(argc) > 0);
  fflush(stdout);
  return getchar() == EOF ? 0 : 1;
}
#endif
