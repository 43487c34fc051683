// Loads a subject that is a shared library.
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
  void* library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  int (*subject)(void) = (int (*)(void))dlsym(library, "subject");
  return subject ? subject() : 3;
}
