// A program outside this repository that has a probe: with our header, or with <sys/sdt.h>.
#ifdef VITRINE_SDT
#include <vitrine/sdt.h>
#else
#include <sys/sdt.h>
#endif

int main(int argc, char** argv) {
#ifdef VITRINE_SDT
  VITRINE_TYPED_PROBE(outsider, fire, (arguments, argc), (program, argv[0]));
#else
  STAP_PROBE2(outsider, fire, argc, argv[0]);
#endif
  return 0;
}
