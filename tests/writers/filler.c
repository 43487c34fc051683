/* A library whose only purpose is to take thread-local storage. */
__attribute__((visibility("default"))) __thread char filler[256] = {1};

__attribute__((visibility("default"))) char* filler_address(void) {
  return filler;
}
