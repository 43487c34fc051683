// A program with a copy of the publishing library, and a plug-in (copies_plugin.cpp) with another. Prints "ready" and
// ends with its input.
//   copies PLUGIN CASE
// Case "trace": the program has a trace and no key, and the plug-in is not loaded. "plugin-first": the plug-in has keys
// before the program publishes its context, and one more after it.
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

/// Until its input ends.
int stay(bool is_good) {
  std::puts("ready");
  std::fflush(stdout);
  while (std::getchar() != EOF) continue;
  return is_good ? 0 : 1;
}

bool publish() {
  return static_cast<bool>(vitrine::context::publish({{"service.name", "program"}}));
}

int have_trace() {
  labels::Trace trace;
  trace.trace_id.bytes[0] = trace.span_id.bytes[0] = 1;
  const bool is_published = publish();
  const labels::Scope scope(trace);
  return stay(is_published && scope.ok());
}

int follow_plugin(const char* path) {
  void* plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) return std::puts(dlerror()), 1;
  const auto run = reinterpret_cast<bool (*)(bool, bool)>(dlsym(plugin, "run"));
  const auto add_key = reinterpret_cast<bool (*)()>(dlsym(plugin, "add_key"));
  return stay(run(false, false) && publish() && add_key());
}

}  // namespace

int main(int, char** arguments) {
  const std::string_view what = arguments[2];
  if (what == "trace") return have_trace();
  if (what == "plugin-first") return follow_plugin(arguments[1]);
  if (!publish()) return 1;
  static const labels::Key tenant{"tenant"}, route{"route"};
  const labels::Scope scope{{tenant, "acme"}, {route, "/cart"}};
  void* plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) return std::puts(dlerror()), 1;
  const auto run = reinterpret_cast<bool (*)(bool, bool)>(dlsym(plugin, "run"));
  if (run == nullptr || !run(what != "keys", what == "dropped"))
    return std::puts("it does not run"), 1;
  if (what == "unclear") find_contexts();
  return stay(scope.ok());
}
