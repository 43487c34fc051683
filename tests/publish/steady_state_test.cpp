// After a thread's first use: no allocation, no lock, and memory within its bound.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>
#include <vitrine/labels.hpp>

#include "publish/own_slot.hpp"

// Counted, whoever calls them; the work is done by the C library's own.
namespace {
std::atomic<long> allocations, locks, mappings;
}

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);

void* malloc(std::size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
void* calloc(std::size_t n, std::size_t size) {
  ++allocations;
  return __libc_calloc(n, size);
}
void* realloc(void* old, std::size_t size) {
  ++allocations;
  return __libc_realloc(old, size);
}
int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  static const auto real =
      reinterpret_cast<int (*)(pthread_mutex_t*)>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  ++locks;
  return real(mutex);
}
void* mmap(void* address, std::size_t size, int protection, int flags, int fd,
           off_t offset) noexcept {
  static const auto real = reinterpret_cast<void* (*)(void*, std::size_t, int, int, int, off_t)>(
      dlsym(RTLD_NEXT, "mmap"));
  ++mappings;
  return real(address, size, protection, flags, fd, offset);
}
}

namespace vitrine {
namespace {

using labels::Key;
using labels::Scope;

const Key tenant{"tenant"}, route{"route"}, user{"user"};

struct Counts {
  long allocations = ::allocations, locks = ::locks, mappings = ::mappings;
};

void expect_nothing_since(const Counts& before) {
  const Counts now;
  EXPECT_EQ(now.allocations - before.allocations, 0);
  EXPECT_EQ(now.locks - before.locks, 0);
}

void use_everything(unsigned i) {
  char value[16];
  const auto size = static_cast<std::size_t>(std::snprintf(value, sizeof value, "%u", i));
  Scope one{tenant, std::string_view(value, size)};
  Scope three{{tenant, "acme"}, {route, std::string_view(value, size)}, {user, "7"}};
  Scope traced{labels::Trace{{{1, 2}}, {{3, static_cast<std::uint8_t>(i)}}, 1}};
  const labels::Set captured = labels::capture();
  auto attached = labels::attach(captured);
  auto bound = labels::bind([] { return labels::get(route).has_value(); });
  (void)bound();
}

TEST(SteadyState, CountersCount) {
  const Counts before;
  void* volatile memory = std::malloc(7);
  std::free(memory);
  std::mutex mutex;
  mutex.lock();
  mutex.unlock();
  const Counts after;
  EXPECT_GT(after.allocations, before.allocations);
  EXPECT_GT(after.locks, before.locks);
}

TEST(SteadyState, NothingIsAllocatedOrLocked) {
  use_everything(0);
  const Counts before;
  for (unsigned i = 0; i < 100'000; ++i) use_everything(i);
  expect_nothing_since(before);
  EXPECT_EQ(Counts().mappings - before.mappings, 0) << "a spinning writer grows the arena";
}

TEST(SteadyState, LargeSetsComeFromTheArenaToo) {
  const std::string large(40'000, 'x');
  { Scope first{tenant, large}; }
  const Counts before;
  for (unsigned i = 0; i < 2000; ++i) {
    Scope scope{{tenant, large}, {route, i % 2 == 0 ? "even" : "odd"}};
    Scope inner{user, "7"};
    if (!inner.ok()) FAIL();
  }
  expect_nothing_since(before);
  EXPECT_LE(Counts().mappings - before.mappings, 4);
}

TEST(SteadyState, TheFirstUseOfAThreadDoesNotAllocateEither) {
  std::thread([] {
    const Counts before;
    Scope scope{tenant, "acme"};
    expect_nothing_since(before);
  }).join();
}

/// Kilobytes of the process that are in memory.
long resident_kib() {
  std::ifstream file("/proc/self/statm");
  long total = 0, resident = 0;
  file >> total >> resident;
  return resident * 4;
}

TEST(Arena, SetsHeldForLongDoNotMakeItGrowWithoutBound) {
  std::vector<labels::Set> held;
  for (unsigned i = 0; i < 3000; ++i) {
    Scope scope{tenant, std::to_string(i)};
    if (i % 10 == 0) held.push_back(labels::capture());
  }
  const Counts before;
  for (unsigned i = 0; i < 300'000; ++i) Scope scope{tenant, std::to_string(i)};
  EXPECT_LE(Counts().mappings - before.mappings, 2);
  for (std::size_t i = 0; i < held.size(); ++i)
    EXPECT_EQ(held[i].get(tenant), std::to_string(i * 10));
  // Given back, their pages serve again: as many once more need no new memory.
  held.clear();
  for (unsigned i = 0; i < 30'000; ++i) Scope scope{tenant, std::to_string(i)};
  const long resident = resident_kib();
  for (int round = 0; round < 50; ++round) {
    for (unsigned i = 0; i < 3000; ++i) {
      Scope scope{tenant, std::to_string(i)};
      if (i % 10 == 0) held.push_back(labels::capture());
    }
    held.clear();
  }
  EXPECT_LT(resident_kib() - resident, 4096);
}

TEST(Arena, MemoryOfASetIsLeftAloneFor50ms) {
  std::thread([] {
    const abi::custom_labels::SetV1* set = nullptr;
    {
      Scope scope{tenant, "stays"};
      set = test::v1_slot;
    }
    // As many as the arena has room for before it must choose.
    for (unsigned i = 0; i < 800; ++i) Scope scope{tenant, std::to_string(i)};
    EXPECT_EQ(test::labels_at(set->storage, set->count), (test::Labels{{"tenant", "stays"}}));
  }).join();
}

TEST(Arena, ThreadsThatComeAndGoReuseMemory) {
  // A second's worth of threads waits in quarantine; then the first of them are taken again.
  const long before = resident_kib();
  long most = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(2500);
  long threads = 0;
  while (std::chrono::steady_clock::now() < until) {
    std::thread([] { Scope scope{tenant, "short"}; }).join();
    ++threads;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    most = std::max(most, resident_kib() - before);
  }
  EXPECT_GT(threads, 100);
  EXPECT_LT(most, threads * 16) << "as if no thread's memory had been used again";
}

}  // namespace
}  // namespace vitrine
