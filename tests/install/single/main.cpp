// A program that publishes by the single header, until it is killed. It burns time for --mode ebpf.
struct Words;
struct Label;
using String = const char*;

#define VITRINE_PUBLISH_IMPLEMENTATION
#include "vitrine_publish.hpp"

// Names of the implementation, for things of the program.
struct Handle {
  int keep;
};
static Handle keep;
static int edit(Handle handle) {
  return handle.keep;
}

void work();

int main() {
  const auto published = vitrine::context::publish({{"service.name", "single-header"}});
  if (!published || edit(keep) != 0) return 1;
  work();
}
