// A process to read: labelled_threads KIND THREADS [spin]
//
// Each thread has three labels in force and sleeps for ever; with `spin` it keeps a CPU busy. KIND
// `vitrine`: published by our own library; `malloc`: as the usual writer does it, every set, array,
// key and value a malloc of its own; `live`: that, and a thread without labels that wakes a thousand
// times a second, so that no reading finds that nothing ran since the last.
#include <pthread.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vitrine/labels.hpp>

namespace {

bool spin = false;
bool by_malloc = false;
pthread_barrier_t all_labelled;

[[noreturn]] void stay() {
  pthread_barrier_wait(&all_labelled);
  for (;;) {
    if (!spin) ::pause();
  }
}

struct String {
  std::uint64_t size;
  const char* data;
};
struct Label {
  String key, value;
};
struct Set {
  Label* labels;
  std::uint64_t count, capacity;
};

String copy(const std::string& text) {
  return {text.size(), ::strdup(text.c_str())};
}

extern "C" __thread void* custom_labels_current_set;

void* tick(void*) {
  for (;;) ::usleep(1000);
}

void* run(void* argument) {
  const std::string id = std::to_string(reinterpret_cast<std::uintptr_t>(argument));
  const std::string tenant = "tenant-" + id, route = "/route/" + id, worker = "worker-" + id;
  if (by_malloc) {
    auto* set = static_cast<Set*>(std::malloc(sizeof(Set)));
    *set = {static_cast<Label*>(std::malloc(3 * sizeof(Label))), 3, 3};
    set->labels[0] = {copy("tenant"), copy(tenant)};
    set->labels[1] = {copy("route"), copy(route)};
    set->labels[2] = {copy("worker"), copy(worker)};
    custom_labels_current_set = set;
    stay();
  }
  const vitrine::labels::Key tenant_key("tenant"), route_key("route"), worker_key("worker");
  const vitrine::labels::Scope scope(
      {{tenant_key, tenant}, {route_key, route}, {worker_key, worker}});
  stay();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const bool live = std::strcmp(argv[1], "live") == 0;
  by_malloc = live || std::strcmp(argv[1], "malloc") == 0;
  const auto count = static_cast<unsigned>(std::atoi(argv[2]));
  spin = argc > 3;
  pthread_barrier_init(&all_labelled, nullptr, count + 1);
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 64 * 1024);
  for (unsigned i = 0; i < count; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, &small, run, reinterpret_cast<void*>(std::uintptr_t{i})) != 0)
      return 1;
  }
  pthread_barrier_wait(&all_labelled);
  if (pthread_t thread; live && pthread_create(&thread, &small, tick, nullptr) != 0) return 1;
  std::puts("ready");
  std::fflush(stdout);
  std::getchar();
  std::_Exit(0);
}
