#include "types.h"

int main(int argc, char** argv) {
  (void)argv;
  return all(argc);
}
