// A program that publishes by the single header, until it is killed. It burns time for --mode ebpf.
#define VITRINE_PUBLISH_IMPLEMENTATION
#include "vitrine_publish.hpp"

void work();

int main() {
  const auto published = vitrine::context::publish({{"service.name", "single-header"}});
  if (!published) return 1;
  work();
}
