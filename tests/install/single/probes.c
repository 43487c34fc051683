#include "vitrine_sdt.h"

int main(int argc, char** argv) {
  VITRINE_TYPED_PROBE(outsider, fire, (arguments, argc), (program, argv[0]));
  return 0;
}
