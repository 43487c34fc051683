// What the example observes: labels, and a probe that fires until its input ends.
#include <poll.h>
#include <vitrine/sdt.h>

#include <cstdio>
#include <vitrine/labels.hpp>

int main() {
  const vitrine::labels::Key tenant{"tenant"};
  const vitrine::labels::Scope scope{tenant, "acme"};
  std::puts("ready");
  std::fflush(stdout);
  pollfd input{0, POLLIN, 0};
  for (int id = 0; poll(&input, 1, 20) == 0; ++id) {
    const char* item = "kettle";
    VITRINE_TYPED_PROBE(shop, order, (id), (item));
  }
}
