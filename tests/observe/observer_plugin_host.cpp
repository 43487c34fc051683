// observer_plugin_host PLUGIN: loads a plug-in, uses it in a thread, and unloads it before that thread ends.
#include <dlfcn.h>

#include <cstdio>
#include <thread>

int main(int count, char** arguments) {
  void* const plugin = count == 2 ? ::dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (plugin == nullptr) {
    std::fprintf(stderr, "%s\n", ::dlerror());
    return 2;
  }
  const auto observe = reinterpret_cast<void (*)()>(::dlsym(plugin, "observe_once"));
  if (observe == nullptr) return 3;
  std::thread user([&] {
    observe();
    ::dlclose(plugin);
  });
  user.join();
  return 0;
}
