// A program that executes itself again and again, each time at the same addresses.
//
//   executes_itself     prints "ready", and works without end, 20 ms in each execution
#include <sys/personality.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>

namespace {

constexpr std::int64_t work_ns = 20'000'000, second_ns = 1'000'000'000;
volatile std::uint64_t sink;

std::int64_t used_ns() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return used.tv_sec * second_ns + used.tv_nsec;
}

[[gnu::noinline]] void work() {
  const std::int64_t end =
      used_ns() + work_ns;  // the clock goes on when a process executes a program
  do {
    for (std::uint64_t i = 0; i < 20'000; ++i) sink = sink + i * i;
  } while (used_ns() < end);
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 1) {
    std::puts("ready");
    std::fflush(stdout);
    if (personality(ADDR_NO_RANDOMIZE) < 0) return 1;
  } else {
    work();
  }
  char again[] = "again";
  char* const its[] = {arguments[0], again, nullptr};
  execv("/proc/self/exe", its);
  return 1;
}
