// A program with a copy of the publishing library, and a plug-in (copies_plugin.cpp) with another. Prints "ready" and
// ends with its input.
//   copies PLUGIN CASE
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vitrine/context.hpp>
#include <vitrine/labels.hpp>

namespace labels = vitrine::labels;

// Of the program's own: where contexts are, as a publisher of two would know it.
std::uintptr_t contexts[8];

namespace {

void find_contexts() {
  std::FILE* maps = std::fopen("/proc/self/maps", "r");
  char line[512];
  std::size_t count = 0;
  while (maps != nullptr && std::fgets(line, sizeof line, maps) != nullptr && count < 8) {
    unsigned long start = 0;
    if (std::strstr(line, "OTEL_CTX") != nullptr && std::sscanf(line, "%lx", &start) == 1)
      contexts[count++] = start;
  }
  if (maps != nullptr) std::fclose(maps);
}

}  // namespace

int main(int, char** arguments) {
  const std::string_view what = arguments[2];
  if (!vitrine::context::publish({{"service.name", "program"}})) return 1;
  static const labels::Key tenant{"tenant"}, route{"route"};
  const labels::Scope scope{{tenant, "acme"}, {route, "/cart"}};
  void* plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) return std::puts(dlerror()), 1;
  const auto run = reinterpret_cast<bool (*)(bool, bool)>(dlsym(plugin, "run"));
  if (run == nullptr || !run(what != "keys", what == "dropped"))
    return std::puts("it does not run"), 1;
  if (what == "unclear") find_contexts();
  std::puts("ready");
  std::fflush(stdout);
  while (std::getchar() != EOF) continue;
  return scope.ok() ? 0 : 1;
}
