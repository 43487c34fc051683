// Waits, in every way that a thread can, for known times by tenant.
//
//   waiting_load ROUNDS     prints "ready"; at a line, each tenant's threads wait ROUNDS times; then
//                           "TENANT KIND NANOSECONDS" of each, by the threads' own clock, and "done"
//
// The labels `tenant` and `kind` are in force while a thread waits, and while its clock is read
// before and after. The tenant "busy" has a thread that computes all the time instead.
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>
#include <vitrine/labels.hpp>

namespace {

namespace labels = vitrine::labels;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using Clock = std::chrono::steady_clock;

timespec as_timespec(nanoseconds time) {
  return {time.count() / 1'000'000'000, time.count() % 1'000'000'000};
}

void sleep(nanoseconds time) {
  const timespec wait = as_timespec(time);
  nanosleep(&wait, nullptr);
}

/// A lock that nobody opens in time.
void wait_on_futex(nanoseconds time) {
  const std::uint32_t closed = 1;
  const timespec wait = as_timespec(time);
  syscall(SYS_futex, &closed, FUTEX_WAIT_PRIVATE, closed, &wait, nullptr, 0);
}

void wait_in_epoll(nanoseconds time) {
  thread_local const int quiet = [] {
    const int epoll = epoll_create1(0);
    epoll_event event{};
    event.events = EPOLLIN;
    epoll_ctl(epoll, EPOLL_CTL_ADD, eventfd(0, 0), &event);
    return epoll;
  }();
  epoll_event event;
  epoll_wait(quiet, &event, 1,
             static_cast<int>(std::chrono::duration_cast<milliseconds>(time).count()));
}

/// A byte that another thread writes after that time: the waiting ends by being woken.
void read_pipe(nanoseconds time) {
  struct Peer {
    Peer() {
      if (pipe(question) != 0 || pipe(answer) != 0) std::abort();
      std::thread([this] {
        for (nanoseconds after; read(question[0], &after, sizeof after) > 0;) {
          sleep(after);
          if (write(answer[1], "", 1) != 1) std::abort();
        }
      }).detach();
    }
    int question[2], answer[2];
  };
  thread_local Peer& peer = *new Peer;
  char byte;
  if (write(peer.question[1], &time, sizeof time) < 0 || read(peer.answer[0], &byte, 1) != 1)
    std::abort();
}

struct Kind {
  std::string_view name;
  void (*wait)(nanoseconds);
};
constexpr std::array<Kind, 4> kinds = {{{"nanosleep", sleep},
                                        {"futex", wait_on_futex},
                                        {"epoll", wait_in_epoll},
                                        {"pipe", read_pipe}}};

struct Tenant {
  std::string_view name;
  milliseconds wait;
};
constexpr std::array<Tenant, 3> tenants = {
    {{"acme", milliseconds(35)}, {"globex", milliseconds(12)}, {"initech", milliseconds(8)}}};

struct Waiter {
  const Tenant& tenant;
  const Kind& kind;
  nanoseconds waited{0};

  void run(int rounds) {
    static const labels::Key tenant_key("tenant"), kind_key("kind");
    kind.wait(milliseconds(1));  // whatever it opens is open afterwards
    const labels::Scope scope({{tenant_key, tenant.name}, {kind_key, kind.name}});
    for (int round = 0; round < rounds; ++round) {
      const auto begin = Clock::now();
      kind.wait(tenant.wait);
      waited += Clock::now() - begin;
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc == 2 ? std::atoi(argv[1]) : 0;
  if (rounds < 1) return 2;
  std::puts("ready");
  std::fflush(stdout);
  if (std::getchar() == EOF) return 2;

  std::atomic<bool> done{false};
  std::thread busy([&done] {
    const labels::Scope scope(labels::Key("tenant"), "busy");
    while (!done) continue;
  });
  std::vector<Waiter> waiters;
  for (const Tenant& tenant : tenants)
    for (const Kind& kind : kinds) waiters.push_back({tenant, kind});
  std::vector<std::thread> threads;
  for (Waiter& waiter : waiters) threads.emplace_back(&Waiter::run, &waiter, rounds);
  for (std::thread& thread : threads) thread.join();
  done = true;
  busy.join();
  for (const Waiter& waiter : waiters)
    std::printf("%s %s %lld\n", waiter.tenant.name.data(), waiter.kind.name.data(),
                static_cast<long long>(waiter.waited.count()));
  std::puts("done");
  std::fflush(stdout);
  std::getchar();
}
