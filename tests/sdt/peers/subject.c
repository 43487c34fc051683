/* Probes for other people's tools to read. */
#include <vitrine/sdt.h>

static __attribute__((noinline)) void twice(int n) {
  VITRINE_PROBE(peers, twice, n);
}

int main(int argc, char** argv) {
  VITRINE_PROBE(peers, plain, argc, argv[0], (char)argc);
  VITRINE_TYPED_PROBE(peers, typed, (argc), (name, argv[0]));
  VITRINE_LAZY_TYPED_PROBE(peers, lazy, (cost, argc * 3));
  VITRINE_PROBE(peers, none);
  twice(argc);
  VITRINE_PROBE(peers, twice, argc);
  return 0;
}
