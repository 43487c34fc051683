// Publishes a label until it is killed; says when it does.
#include <unistd.h>

#include <cstdio>
#include <vitrine/labels.hpp>

int main() {
  const vitrine::labels::Scope scope(vitrine::labels::Key("tenant"), "acme");
  if (!scope.ok()) return 1;
  std::puts("ready");
  std::fflush(stdout);
  for (;;) pause();
}
