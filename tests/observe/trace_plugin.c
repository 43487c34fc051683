// A library with probes: when it is loaded, and when it is called.
#include <vitrine/sdt.h>

__attribute__((constructor)) static void loaded(void) {
  VITRINE_PROBE(plugin, loaded);
}

void plugin_call(int number);
void plugin_call(int number) {
  VITRINE_PROBE(plugin, called, number);
}
