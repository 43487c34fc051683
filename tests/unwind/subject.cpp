// A program whose stacks are of every kind that compilers make, again and again until it is killed.
// subject THREADS [LIBRARY]: prints "ready" when all of them run. With ONE_STACK in its environment
// no handler of a signal has a stack of its own.
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using Random = std::minstd_rand;
using Callback = void (*)(void*);
void (*library_entry)(Callback, void*) = nullptr;

volatile unsigned sink;

/// The leaf of every scenario: no frame of its own, some hundred nanoseconds.
[[gnu::noinline]] void spin(unsigned seed) {
  for (unsigned n = 0; n < 100; ++n) seed = seed * 1664525 + 1013904223;
  sink = seed;
}

[[gnu::noinline]] unsigned recurse(Random& random, unsigned depth) {
  char room[64];
  std::memset(room, static_cast<int>(depth), sizeof room);
  if (depth == 0) {
    spin(random());
  } else {
    recurse(random, depth - 1);
  }
  return static_cast<unsigned>(room[random() % sizeof room]);
}

[[gnu::noinline]] unsigned variable_frame(Random& random, std::size_t size) {
  auto* room = static_cast<unsigned char*>(alloca(size));
  std::memset(room, 1, size);
  for (int n = 0; n < 4; ++n) spin(room[random() % size]);
  return room[random() % size];
}

struct alignas(64) Wide {
  double values[16];
};

[[gnu::noinline]] double fill(Wide& wide, Random& random) {
  for (double& value : wide.values) value = static_cast<double>(random());
  spin(random());
  return wide.values[3];
}

/// The compiler aligns the stack anew, and must keep the way back in a register.
[[gnu::noinline]] double realigned(Random& random) {
  Wide wide;
  return fill(wide, random) + wide.values[random() % 16];
}

[[gnu::noinline]] double realigned_and_variable(Random& random, std::size_t size, int a, int b,
                                                int c, int d, int e, double on_stack) {
  Wide wide;
  auto* room = static_cast<unsigned char*>(alloca(size));
  std::memset(room, a + b + c + d + e, size);
  return fill(wide, random) + room[random() % size] + on_stack;
}

[[gnu::noinline]] int throw_through(Random& random, unsigned depth) {
  const std::string local(depth % 32, 'x');
  if (depth == 0) throw std::runtime_error("thrown");
  return throw_through(random, depth - 1) + static_cast<int>(local.size());
}

thread_local jmp_buf way_out;

/// Nothing follows the call of a function that does not return: the return address may be of the
/// next function.
[[noreturn, gnu::noinline]] void never_returns(unsigned seed) {
  for (int n = 0; n < 4; ++n) spin(seed);
  longjmp(way_out, 1);
}
[[noreturn, gnu::noinline]] void tail(Random& random) {
  char room[40];
  std::memset(room, 2, sizeof room);
  never_returns(static_cast<unsigned>(room[random() % 40]));
}

void on_signal(int) {
  Random random(sink + 1);
  recurse(random, 3);
}

int compare(const void* a, const void* b) {
  spin(1);
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}

void from_library(void* random) {
  recurse(*static_cast<Random*>(random), 4);
}

void library_functions(Random& random) {
  int numbers[32];
  for (int& number : numbers) number = static_cast<int>(random() % 1000);
  std::qsort(numbers, 32, sizeof numbers[0], compare);
  char text[64];
  std::snprintf(text, sizeof text, "%d %f %s", numbers[3], 1.5 * numbers[4], "text");
  sink = sink + static_cast<unsigned>(std::strtol(text, nullptr, 10));
  free(std::memset(malloc(random() % 4096 + 1), 1, 1));
}

void containers(Random& random) {
  std::map<std::string, std::function<unsigned(unsigned)>> work;
  for (int n = 0; n < 8; ++n)
    work[std::to_string(random() % 100)] = [&random](unsigned seed) {
      return recurse(random, seed % 5);
    };
  for (auto& [name, function] : work) sink = function(static_cast<unsigned>(name.size()) * 3);
  std::vector<std::string> names;
  for (const auto& entry : work) names.push_back(entry.first);
  std::sort(names.begin(), names.end(), [](const auto& a, const auto& b) {
    spin(static_cast<unsigned>(a.size()));
    return b < a;
  });
}

[[gnu::noinline]] void one(Random& random) {
  switch (random() % 12) {
    case 0:
      sink = recurse(random, random() % 100);
      break;
    case 1:
      sink = variable_frame(random, random() % 3000 + 1);
      break;
    case 2:
      sink = static_cast<unsigned>(realigned(random));
      break;
    case 3:
      sink = static_cast<unsigned>(
          realigned_and_variable(random, random() % 500 + 1, 1, 2, 3, 4, 5, 6.0));
      break;
    case 4:
      try {
        throw_through(random, random() % 10);
      } catch (const std::exception&) {
      }
      break;
    case 5:
      if (setjmp(way_out) == 0) tail(random);
      break;
    case 6:
      raise(SIGUSR1);
      break;
    case 7:
      raise(SIGUSR2);
      break;
    case 8:
      library_functions(random);
      break;
    case 9:
      containers(random);
      break;
    case 10:
      for (int n = 0; n < 20; ++n) {
        timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        sink = static_cast<unsigned>(now.tv_nsec);
      }
      break;
    default:
      if (library_entry != nullptr) library_entry(from_library, &random);
  }
}

std::atomic<int> running{0};

[[noreturn]] void for_ever(unsigned seed) {
  // Handlers of SIGUSR2 have a stack of their own.
  const stack_t other{malloc(64 * 1024), 0, 64 * 1024};
  if (getenv("ONE_STACK") == nullptr) sigaltstack(&other, nullptr);
  Random random(seed);
  ++running;
  for (;;) one(random);
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  if (argc > 2) {
    void* library = dlopen(argv[2], RTLD_NOW);
    library_entry =
        library == nullptr
            ? nullptr
            : reinterpret_cast<void (*)(Callback, void*)>(dlsym(library, "library_entry"));
    if (library_entry == nullptr) return 1;
  }
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGUSR1, &action, nullptr);
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR2, &action, nullptr);
  for (int n = 1; n < threads; ++n) std::thread(for_ever, n).detach();
  std::thread([threads] {
    while (running < threads) usleep(1000);
    std::puts("ready");
    std::fflush(stdout);
  }).detach();
  for_ever(0);
}
