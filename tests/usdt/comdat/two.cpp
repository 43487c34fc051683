#include "comdat.hpp"

static int own(int n) {
  ++counts.fires;
  COMDAT_OWN(n, "two");
  HERE(comdat_own);
  return n;
}

int two(int n);
int two(int n) {
  return everything(n) + own(n);
}
