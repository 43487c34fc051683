// Unloads a plug-in that has published labels, while a thread that used it lives.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <future>
#include <thread>

int main(int, char** arguments) {
  for (int round = 0; round < 3; ++round) {
    void* const plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (plugin == nullptr) return std::puts(dlerror()), 1;
    const auto use = reinterpret_cast<int (*)()>(dlsym(plugin, "use_labels"));
    std::promise<int> used;
    std::promise<void> unloaded;
    std::thread thread([&] {
      used.set_value(use());
      unloaded.get_future().wait();
    });
    if (used.get_future().get() != 1 || use() != 1) return std::puts("no labels"), 1;
    dlclose(plugin);
    unloaded.set_value();
    thread.join();
    const pid_t child = fork();
    if (child == 0) _exit(0);
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) return std::puts("the child failed"), 1;
  }
}
