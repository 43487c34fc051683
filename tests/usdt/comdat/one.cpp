#include "comdat.hpp"

static int own(int n) {
  ++counts.fires;
  COMDAT_OWN(n, "one");
  HERE(comdat_own);
  return n;
}

int one(int n);
int one(int n) {
  return everything(n) + own(n);
}
