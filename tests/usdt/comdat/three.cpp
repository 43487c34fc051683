#include "comdat.hpp"

static int own(int n) {
  ++counts.fires;
  COMDAT_OWN(n, "three");
  HERE(comdat_own);
  return n;
}

int three(int n);
int three(int n) {
  return everything(n) + own(n);
}
