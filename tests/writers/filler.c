/* A library whose only purpose is to take thread-local storage: -DFILLER_SIZE bytes. */
#ifndef FILLER_SIZE
#define FILLER_SIZE 256
#endif

__attribute__((visibility("default"), aligned(8))) __thread char filler[FILLER_SIZE] = {1};

__attribute__((visibility("default"))) char* filler_address(void) {
  return filler;
}
