/* Calls through copies of CPython's trampoline in anonymous memory, eight deep, for ever. Built
 * without symbols it is a stripped file, whose calls of the C library go through its linkage
 * table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef long (*trampoline)(void*, void*, long, void*);
static trampoline copies[8];
volatile long sink;

/* Of a loop that has longer functions, too, some processors are hardly ever interrupted in a stub of the linkage table. */
static long many_stubs(long number) {
  return labs(labs(labs(labs(labs(labs(labs(labs(number))))))));
}

__attribute__((noinline)) static long evaluate(void* thread, void* frame, long depth) {
  if (depth > 0) return copies[depth](thread, frame, depth - 1, (void*)evaluate) + sink;
  for (int n = 0; n < 2000; ++n) sink += many_stubs(n - 1000);
  return sink;
}

int main(int count, char** arguments) {
  (void)arguments;
  static const unsigned char code[] = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd1,
                                       0x48, 0x83, 0xc4, 0x08, 0xc3};
  unsigned char* page =
      mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return 1;
  for (size_t n = 0; n < 8; ++n) {
    memcpy(page + 16 * n, code, sizeof code);
    copies[n] = (trampoline)(void*)(page + 16 * n);
  }
  if (count > 1) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    FILE* map = fopen(path, "w");
    if (map == NULL) return 1;
    for (size_t n = 0; n < 8; ++n)
      fprintf(map, "%lx %zx py::evaluate:/tmp/tree.py\n", (unsigned long)(page + 16 * n),
              sizeof code);
    fclose(map);
  }
  puts("ready");
  fflush(stdout);
  for (;;) evaluate(NULL, NULL, 7);
}
