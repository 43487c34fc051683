// Loads a plug-in with labels, runs it, and closes it: it is gone then.
//   plugin_host PLUGIN
#include <dlfcn.h>

#include <cstdio>

int main(int, char** arguments) {
  void* plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) return std::puts(dlerror()), 1;
  const auto run = reinterpret_cast<bool (*)()>(dlsym(plugin, "run"));
  if (run == nullptr || !run()) return std::puts("it does not run"), 1;
  if (dlclose(plugin) != 0) return std::puts(dlerror()), 1;
  if (dlopen(arguments[1], RTLD_NOW | RTLD_NOLOAD) != nullptr)
    return std::puts("it is still loaded"), 1;
}
