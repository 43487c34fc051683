// A program to profile, built without frame pointers. Each of its arguments, and each line of its
// standard input after it said "ready", is a command; a line is answered by "ok":
//   burn TENANT     a thread that computes, labelled tenant=TENANT and route=/pay
//   wait TENANT     a thread that sleeps for 20 ms, again and again, labelled like that
//   nap N           N threads that sleep for less than a millisecond, again and again, at many depths
//   block TENANT    a thread that waits for a message that never comes, labelled like that
//   large TENANT    a thread that computes, labelled like that by another writer, and with a label that is longer than
//                   a sample can carry
//   traced          a thread that computes for trace 0102…10, span a1…a8
//   load FILE       a thread that computes in a library that is loaded now
//   made            a thread that computes in code that was made now, named in /tmp/perf-PID.map
//   fork            a process that computes, labelled tenant=child
//   children N      N processes, one after the other, that touch 64 MiB and end; then it ends itself,
//                   and writes the milliseconds of CPU that all of them took to its standard error
//   exec FILE       executes it, with `burn next` for its argument
//   end MS          ends in so many milliseconds
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vitrine/labels.hpp>

extern "C" thread_local void* custom_labels_current_set;

namespace {

using vitrine::labels::Key;
using vitrine::labels::Set;

const Key tenant_key("tenant"), route_key("route");
std::atomic<std::uint64_t> sink;

[[gnu::noinline]] std::uint64_t burn_step(std::uint64_t x) {
  for (int i = 0; i < 2000; ++i) x = x * 6364136223846793005U + (x >> 29);
  return x;
}

[[gnu::noinline]] void burn() {
  for (;;) {
    sink += burn_step(sink);
    sink += 1;
  }
}

[[gnu::noinline]] void wait_in_turn() {
  for (;;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    sink += 1;
  }
}

/// Many short waits, of stacks of many depths.
[[gnu::noinline]] void nap(int depth, std::chrono::microseconds time) {
  if (depth > 0)
    nap(depth - 1, time);
  else
    std::this_thread::sleep_for(time);
  sink += 1;
}

void nap_in_threads(int threads) {
  for (int i = 0; i < threads; ++i)
    std::thread([i] {
      std::minstd_rand random(static_cast<unsigned>(i + 1));
      for (;;)
        nap(static_cast<int>(random() % 30), std::chrono::microseconds(300 + random() % 700));
    }).detach();
}

[[gnu::noinline]] void wait_for_ever() {
  int ends[2];
  if (pipe(ends) != 0) std::_Exit(1);
  char byte = 0;
  while (read(ends[0], &byte, 1) <= 0) {
  }
}

void start(const char* name, std::string tenant, void (*work)()) {
  std::thread([=] {
    pthread_setname_np(pthread_self(), name);
    const vitrine::labels::Attach scope(Set::of({{tenant_key, tenant}, {route_key, "/pay"}}));
    work();
  }).detach();
}

struct ForeignText {
  std::size_t length;
  const char* bytes;
};
struct ForeignLabel {
  ForeignText key, value;
};
struct ForeignSet {
  const ForeignLabel* labels;
  std::size_t count, capacity;
};

void burn_under_large_labels(const std::string& tenant) {
  const std::string body(5000, 'x');
  const ForeignLabel labels[] = {{{4, "body"}, {body.size(), body.data()}},
                                 {{6, "tenant"}, {tenant.size(), tenant.data()}}};
  ForeignSet set{labels, 2, 2};
  custom_labels_current_set = &set;
  burn();
}

/// `loop: inc rax; dec rdi; jnz loop; ret`, called again and again.
void burn_in_jit_code() {
  constexpr unsigned char code[] = {0x48, 0xff, 0xc0, 0x48, 0xff, 0xcf, 0x75, 0xf8, 0xc3};
  void* page =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::memcpy(page, code, sizeof code);
  std::ofstream map("/tmp/perf-" + std::to_string(getpid()) + ".map");
  map << std::hex << reinterpret_cast<std::uintptr_t>(page) << ' ' << sizeof code
      << " made_at_run_time\n";
  map.close();
  const auto made = reinterpret_cast<void (*)(std::uint64_t)>(page);
  for (;;) {
    made(1'000'000);
    sink += 1;
  }
}

/// Much of their time is that of giving back their memory.
[[noreturn]] void burn_in_children(int count) {
  constexpr std::size_t bytes = 64U << 20;
  for (; count > 0; --count) {
    if (fork() == 0) {
      void* memory =
          mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) _exit(1);
      madvise(memory, bytes, MADV_NOHUGEPAGE);
      std::memset(memory, 1, bytes);
      _exit(0);
    }
    int status = 0;
    if (wait(&status) < 0 || status != 0) _exit(1);
  }
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  const auto ms = [](const timeval& time) { return time.tv_sec * 1000 + time.tv_usec / 1000; };
  std::cerr << "children took " << ms(used.ru_utime) + ms(used.ru_stime) << " ms\n";
  _exit(0);
}

void obey(const std::string& line) {
  std::istringstream words(line);
  std::string word, rest;
  words >> word >> rest;
  if (word == "burn") {
    start("burner", rest, burn);
  } else if (word == "wait") {
    start("waiter", rest, wait_in_turn);
  } else if (word == "nap") {
    nap_in_threads(std::stoi(rest));
  } else if (word == "block") {
    start("blocked", rest, wait_for_ever);
  } else if (word == "large") {
    std::thread(burn_under_large_labels, rest).detach();
  } else if (word == "traced") {
    std::thread([] {
      const vitrine::labels::TraceId trace{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
      const vitrine::labels::SpanId span{0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8};
      const vitrine::labels::Scope scope(vitrine::labels::Trace(trace, span), {});
      burn();
    }).detach();
  } else if (word == "load") {
    void* library = dlopen(rest.c_str(), RTLD_NOW);
    if (library == nullptr) std::cerr << dlerror() << '\n', std::_Exit(1);
    std::thread(reinterpret_cast<void (*)()>(dlsym(library, "plugin_burn"))).detach();
  } else if (word == "made") {
    std::thread(burn_in_jit_code).detach();
  } else if (word == "fork") {
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const vitrine::labels::Attach scope(Set::of({{tenant_key, "child"}}));
      burn();
    }
  } else if (word == "children") {
    burn_in_children(std::stoi(rest));
  } else if (word == "exec") {
    execl(rest.c_str(), rest.c_str(), "burn next", nullptr);
    std::_Exit(1);
  } else if (word == "end") {
    std::thread([ms = std::stoi(rest)] {
      std::this_thread::sleep_for(std::chrono::milliseconds(ms));
      std::_Exit(0);
    }).detach();
  } else {
    std::_Exit(2);
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) obey(argv[i]);
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    obey(line);
    std::cout << "ok" << std::endl;
  }
  for (;;) pause();
}
