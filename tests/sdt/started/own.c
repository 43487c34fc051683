/* Guarded probes of <vitrine/sdt.h>, in a program and in libraries. */
#ifndef LIBRARY
#include <dlfcn.h>
#include <unistd.h>
#endif
#include <vitrine/sdt.h>

VITRINE_SEMAPHORE(common);

void* constant[] = {(void*)&constant}; /* the dynamic linker writes here: RELRO begins the data */
void* const relocated[] = {(void*)&constant};

__attribute__((visibility("default"))) void fire(int i);
void fire(int i) {
  VITRINE_LAZY_TYPED_PROBE(started, lazy, (i));
  if (VITRINE_PROBE_ENABLED(started, asked)) VITRINE_PROBE(started, asked, i);
  if (VITRINE_SEMAPHORE_ENABLED(common)) VITRINE_SHARED_PROBE(common, started, shared, i);
}

#ifndef LIBRARY
int main(int argc, char** argv) {
  void (*library)(int) = 0;
  char byte;
  if (argc > 1) {
    void* opened = dlopen(argv[1], RTLD_NOW);
    if (opened == 0) return 1;
    *(void**)&library = dlsym(opened, "fire");
  }
  for (int i = 0; i < 5; ++i) {
    fire(i);
    if (library != 0) library(i);
  }
  if (argc > 2) (void)!read(0, &byte, 1);
  return 0;
}
#endif
