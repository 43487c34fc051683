// Threads that wait, each for one that wakes it in a way of its own.
//
//   waking_load ROUNDS   prints "ready"; at a line, each thread waits ROUNDS times; then "KIND NANOSECONDS" of
//                        each, by its own clock, and "done"
//
// A thread that waits has the labels `tenant=waits` and `kind`; the one that wakes it, `tenant` as in the table
// below, and a function of that kind's name on its stack. For "process" it is in another process. "timer" waits
// for the clock alone.
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>
#include <vitrine/labels.hpp>

namespace {

namespace labels = vitrine::labels;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds apart{2};

void check(bool is_well) {
  if (!is_well) std::abort();
}

[[gnu::noinline]] void wait_for_byte(int end) {
  char byte;
  check(read(end, &byte, 1) == 1);
  asm volatile("" ::: "memory");
}

[[gnu::noinline]] void wait_for_word(std::atomic<std::uint32_t>& word, std::uint32_t before) {
  while (word == before) syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, before, nullptr, nullptr, 0);
  asm volatile("" ::: "memory");
}

[[gnu::noinline]] void wake_by_word(std::atomic<std::uint32_t>& word) {
  ++word;
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  asm volatile("" ::: "memory");
}

// Functions that are the same but for their names would become one.

[[gnu::noinline]] void wake_by_pipe(int end) {
  check(write(end, "x", 1) == 1);
  asm volatile("# pipe" ::: "memory");
}

[[gnu::noinline]] void wake_by_socket(int end) {
  check(send(end, "x", 1, 0) == 1);
  asm volatile("# socket" ::: "memory");
}

[[gnu::noinline]] void wake_from_process(int end) {
  check(write(end, "x", 1) == 1);
  asm volatile("# process" ::: "memory");
}

/// Of one waiting thread: how it waits once, and how it is woken once.
struct Kind {
  std::string_view name, waker;
  std::function<void()> wait, wake;
  std::chrono::nanoseconds waited{0};
};

void wake_each(const Kind& kind, int rounds) {
  const labels::Scope scope(labels::Key("tenant"), kind.waker);
  for (int round = 0; round < rounds; ++round) {
    std::this_thread::sleep_for(apart);  // it waits by then, as a rule
    kind.wake();
  }
}

void wait_each(Kind& kind, int rounds) {
  static const labels::Key tenant("tenant"), kind_key("kind");
  const labels::Scope scope({{tenant, "waits"}, {kind_key, kind.name}});
  for (int round = 0; round < rounds; ++round) {
    const auto begin = Clock::now();
    kind.wait();
    kind.waited += Clock::now() - begin;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc == 2 ? std::atoi(argv[1]) : 0;
  if (rounds < 1) return 2;
  static std::atomic<std::uint32_t> word{0};
  int pipe_ends[2], sockets[2], others[2], begin[2];
  check(pipe(pipe_ends) == 0 && pipe(others) == 0 && pipe(begin) == 0);
  check(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
  std::uint32_t seen = 0;
  std::vector<Kind> kinds;
  kinds.push_back(
      {"word", "acme", [&] { wait_for_word(word, seen++); }, [&] { wake_by_word(word); }});
  kinds.push_back({"pipe", "globex", [&] { wait_for_byte(pipe_ends[0]); },
                   [&] { wake_by_pipe(pipe_ends[1]); }});
  kinds.push_back({"socket", "initech", [&] { wait_for_byte(sockets[0]); },
                   [&] { wake_by_socket(sockets[1]); }});
  kinds.push_back({"process", "umbrella", [&] { wait_for_byte(others[0]); },
                   [&] { wake_from_process(others[1]); }});
  kinds.push_back({"timer", {}, [] { std::this_thread::sleep_for(apart); }, {}});

  const pid_t child = fork();
  check(child >= 0);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "other");
    char byte;
    if (read(begin[0], &byte, 1) != 1) _exit(1);
    wake_each(kinds[3], rounds);
    pause();
  }
  std::puts("ready");
  std::fflush(stdout);
  if (std::getchar() == EOF) return 2;

  std::vector<std::thread> threads;
  for (Kind& kind : kinds) {
    threads.emplace_back(wait_each, std::ref(kind), rounds);
    if (kind.wake && kind.name != "process")
      threads.emplace_back(wake_each, std::cref(kind), rounds);
  }
  check(write(begin[1], "x", 1) == 1);
  for (std::thread& thread : threads) thread.join();
  for (const Kind& kind : kinds)
    std::printf("%s %lld\n", kind.name.data(), static_cast<long long>(kind.waited.count()));
  std::puts("done");
  std::fflush(stdout);
  std::getchar();
  kill(child, SIGKILL);
}
