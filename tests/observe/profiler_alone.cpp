// A profiler in a process of its own, to be killed. usage: profiler_alone PID
// Prints "sampling", and goes on until then.
#include <cstdio>
#include <cstdlib>

#include "bpf/profiler.hpp"

int main(int argc, char** argv) {
  using namespace vitrine::bpf;
  if (argc != 2) return 2;
  ProfilerOptions options;
  options.frequency = 999;
  options.off_cpu = true;
  auto profiler = Profiler::open(options);
  const vitrine_target nothing{};
  if (!profiler || !(*profiler)->want(std::atoi(argv[1]), nothing) || !(*profiler)->start())
    return 1;
  std::puts("sampling");
  std::fflush(stdout);
  for (;;)
    if (!(*profiler)->poll(std::chrono::milliseconds(100), {[](const StackSample&) {}})) return 1;
}
