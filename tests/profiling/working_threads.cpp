// A process to profile: working_threads THREADS OF [TURNS]
//
// Of OF threads that keep half a CPU busy together, in this process and its like, it has THREADS: each
// works for half a millisecond, with three labels in force, and sleeps while the others do. They
// begin when all are there; then it prints "ready". With TURNS they end after so many, and it does.
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vitrine/labels.hpp>

namespace {

namespace labels = vitrine::labels;

constexpr long turn_ns = 500'000;
long everyone = 1;
long turns = 0;  // 0: for ever
std::atomic<long> started{0};
std::atomic<bool> begun{false};
volatile std::uint64_t sink;

long processor_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

[[gnu::noinline]] void work() {
  std::uint64_t hash = sink;
  for (const long end = processor_time() + turn_ns; processor_time() < end;)
    for (int i = 0; i < 10'000; ++i) hash = hash * 31 + 7;
  sink = hash;
}

void* run(void* argument) {
  const std::string id = std::to_string(reinterpret_cast<std::uintptr_t>(argument));
  const std::string tenant = "tenant-" + id, route = "/route/" + id;
  const labels::Key tenant_key("tenant"), route_key("route"), worker_key("worker");
  const labels::Scope scope({{tenant_key, tenant}, {route_key, route}, {worker_key, id}});
  ++started;
  begun.wait(false);
  // Not all at once, the first time.
  const long all_turns = 2 * everyone * turn_ns;
  const long first = all_turns / 1000 * (std::rand() % 1000);
  long turn = 0;
  for (timespec wait{first / 1'000'000'000, first % 1'000'000'000}; turns == 0 || turn < turns;
       ++turn, wait = {all_turns / 1'000'000'000, all_turns % 1'000'000'000}) {
    nanosleep(&wait, nullptr);
    work();
  }
  --started;
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const long count = std::atol(argv[1]);
  everyone = std::atol(argv[2]);
  turns = argc > 3 ? std::atol(argv[3]) : 0;
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 64 * 1024);
  for (long i = 0; i < count; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, &small, run, reinterpret_cast<void*>(std::uintptr_t(i))) != 0)
      return 1;
  }
  const timespec moment{0, 1'000'000};
  while (started < count) nanosleep(&moment, nullptr);
  begun = true;
  begun.notify_all();
  std::puts("ready");
  std::fflush(stdout);
  if (turns == 0) std::getchar();
  while (turns != 0 && started > 0) nanosleep(&moment, nullptr);
  std::_Exit(0);
}
