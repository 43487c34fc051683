// Says how often anything fired; the same, whichever copies the linker kept.
#include "comdat.hpp"

Counts counts;
int one(int), two(int), three(int);
int use(int n) {
  return n % 7;
}

extern "C" int subject();
int subject() {
  const int sum = one(3) + two(4) + three(5);
  std::printf("sum %d, %ld fires\n", sum, counts.fires);
  return 0;
}

int main() {
  return subject();
}
