// Where the memory of threads comes from: slabs, and arenas of threads that ended.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <setjmp.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "publish/base/arena.hpp"
#include "publish/base/cells.hpp"
#include "publish/base/slab.hpp"
#include "publish/stepping.hpp"

#if defined(__SANITIZE_ADDRESS__) || VITRINE_DETAIL_THREAD_SANITIZER || VITRINE_EMULATED
#define VITRINE_TEST_OWNS_ADDRESSES 0
#else
#define VITRINE_TEST_OWNS_ADDRESSES 1
#endif

namespace {
/// The coarse clock, which the library looks at.
std::atomic<std::uint64_t> now_us{5'000'000};
}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  if (clock != CLOCK_MONOTONIC_COARSE)
    return static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  const std::uint64_t us = now_us;
  now->tv_sec = static_cast<time_t>(us / 1'000'000);
  now->tv_nsec = static_cast<long>(us % 1'000'000) * 1000;
  return 0;
}

namespace vitrine::publish {
namespace {

constexpr std::size_t piece = 4096;

struct Cut {
  std::uintptr_t begin;
  std::uintptr_t end;
  friend bool operator<(const Cut& a, const Cut& b) { return a.begin < b.begin; }
};

Cut cut(std::size_t bytes, std::size_t alignment) {
  const auto begin = reinterpret_cast<std::uintptr_t>(cut_memory(bytes, alignment));
  return {begin, begin + bytes};
}

void expect_apart(std::vector<Cut> cuts) {
  std::sort(cuts.begin(), cuts.end());
  for (std::size_t i = 1; i < cuts.size(); ++i) ASSERT_LE(cuts[i - 1].end, cuts[i].begin);
}

TEST(Slab, CutsAreApartAlignedAndZero) {
  std::mt19937 random(7);
  std::vector<Cut> cuts;
  std::size_t bytes = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::size_t alignment = std::size_t{8} << random() % 16;
    const std::size_t size = 1 + random() % (random() % 8 == 0 ? max_cut_bytes : 3 * piece);
    const Cut one = cut(size, alignment);
    ASSERT_NE(one.begin, 0U);
    ASSERT_EQ(one.begin % alignment, 0U);
    ASSERT_EQ(one.begin % piece, 0U);
    auto* memory = reinterpret_cast<char*>(one.begin);
    ASSERT_EQ(memory[0], 0);
    ASSERT_EQ(memory[size - 1], 0);
    memory[0] = memory[size - 1] = 1;
    cuts.push_back(one);
    bytes += size;
  }
  expect_apart(cuts);
  EXPECT_GT(bytes, 40U << 20) << "too few for several slabs";
}

TEST(Slab, ThreadsThatCutAtTheSameTimeGetMemoryOfTheirOwn) {
  constexpr int threads = 4, each = 5000;
  std::vector<Cut> cuts[threads];
  std::vector<std::thread> running;
  std::atomic<int> ready{0};
  for (auto& own : cuts) {
    running.emplace_back([&] {
      own.reserve(each);
      ++ready;
      while (ready < threads) {
      }
      for (int i = 0; i < each; ++i) own.push_back(cut(i % 3 == 0 ? 16 * piece : piece, piece));
    });
  }
  for (std::thread& thread : running) thread.join();
  std::vector<Cut> all;
  for (const auto& own : cuts) all.insert(all.end(), own.begin(), own.end());
  EXPECT_EQ(all.size(), std::size_t{threads} * each);
  EXPECT_NE(std::min_element(all.begin(), all.end())->begin, 0U);
  expect_apart(std::move(all));
}

/// Runs in a forked child. The result is whether `body` returned true.
template <class F>
bool in_child(F&& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// The parent's other threads may write to what they cut before the system has copied it, and after it has copied
// the state of the slab.
TEST(Slab, AForkedChildCutsFromOneOfItsOwn) {
  const Cut before = cut(piece, piece);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  EXPECT_TRUE(in_child([&] {
    const Cut own = cut(piece, piece);
    return write(ends[1], &own, sizeof own) == sizeof own;
  }));
  Cut childs{};
  ASSERT_EQ(read(ends[0], &childs, sizeof childs), static_cast<ssize_t>(sizeof childs));
  close(ends[0]);
  close(ends[1]);
  const Cut after = cut(piece, piece);
  EXPECT_EQ(after.begin, before.end) << "the parent goes on where it was";
  EXPECT_NE(childs.begin, after.begin);
  EXPECT_NE(childs.begin, 0U);
}

#if VITRINE_TEST_OWNS_ADDRESSES

/// Lines of /proc/self/maps.
long mappings() {
  std::ifstream maps("/proc/self/maps");
  long lines = 0;
  for (std::string line; std::getline(maps, line);) ++lines;
  return lines;
}

TEST(Slab, HasOneMappingForMuchMemory) {
  for (int i = 0; i < 200; ++i) cut(max_cut_bytes, 64 * 1024);  // slabs have their full size by now
  const long before = mappings();
  for (int i = 0; i < 2000; ++i) {
    // As a thread with labels of all kinds.
    ASSERT_NE(cut(256 * 1024, 8 * 1024).begin, 0U);
    ASSERT_NE(cut(64 * 1024, 64 * 1024).begin, 0U);
    ASSERT_NE(cut(64 * 1024, 64 * 1024).begin, 0U);
  }
  EXPECT_LE(mappings() - before, 2000 * 384 / 8192 + 10);
}

TEST(Slab, WhereNoneCanBeMappedACutIsAMappingOfItsOwn) {
  EXPECT_TRUE(in_child([] {
    forget_slab();
    std::ifstream statm("/proc/self/statm");
    std::size_t pages = 0;
    statm >> pages;
    const rlim_t now = pages * 4096;
    const rlimit little{now + 400 * 1024, RLIM_INFINITY}, enough{RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &little);
    const Cut own = cut(256 * 1024, 8 * 1024);
    const Cut none = cut(256 * 1024, 8 * 1024);
    setrlimit(RLIMIT_AS, &enough);
    const Cut later = cut(256 * 1024, 8 * 1024);
    return own.begin != 0 && none.begin == 0 && later.begin != 0;
  }));
}

/// The flags of the mapping that `address` is in.
std::string flags_of(std::uintptr_t address) {
  std::ifstream smaps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    std::uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%zx-%zx ", &begin, &end) == 2)
      inside = begin <= address && address < end;
    else if (inside && line.compare(0, 8, "VmFlags:") == 0)
      return line + " ";
  }
  return "";
}

// One huge page would make the memory resident that eight threads have not touched.
TEST(Slab, HasNoHugePages) {
  if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) != 0)
    GTEST_SKIP() << "the kernel has no transparent huge pages";
  for (int i = 0; i < 100; ++i) {
    const std::string flags = flags_of(cut(max_cut_bytes, piece).begin);
    ASSERT_NE(flags.find(" nh "), std::string::npos) << flags;
  }
}

#endif

/// Arenas that this test has at present: no other code marks them so.
bool begin_use(Arena& arena) {
  return __atomic_exchange_n(&arena.kept_of, 1, __ATOMIC_RELAXED) == 0;
}
void end_use(Arena& arena) {
  __atomic_store_n(&arena.kept_of, 0, __ATOMIC_RELAXED);
}

TEST(Quarantine, AnArenaWaitsForASecond) {
  Arena* first = acquire_arena();
  retire_arena(first);
  now_us += 990'000;
  Arena* second = acquire_arena();
  EXPECT_NE(second, first);
  now_us += 20'000;
  Arena* third = acquire_arena();
  EXPECT_EQ(third, first);
  EXPECT_NE(acquire_arena(), first);
}

TEST(Quarantine, ManyThreadsThatComeAndGoShareFewArenas) {
  constexpr std::uint64_t thread_us = 25;
  std::map<Arena*, std::uint64_t> retired_at;
  for (int i = 0; i < 50'000; ++i) {
    Arena* arena = acquire_arena();
    ASSERT_NE(arena, nullptr);
    const auto known = retired_at.find(arena);
    if (known != retired_at.end()) {  // the library counts whole milliseconds
      ASSERT_GE(now_us - known->second, 49'000U);
    }
    now_us += thread_us;
    retire_arena(arena);
    retired_at[arena] = now_us;
  }
  EXPECT_LT(retired_at.size(), 64 + 51'000 / thread_us + 8) << "a second's worth is 40,000";
}

TEST(Quarantine, ThreadsThatBeginAndEndAtTheSameTimeNeverShareAnArena) {
  std::atomic<long> shared{0};
  std::mutex mutex;
  std::set<Arena*> seen;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      std::set<Arena*> own;
      for (int i = 0; i < 20'000; ++i) {
        Arena* arena = acquire_arena();
        if (arena == nullptr || !begin_use(*arena)) ++shared;
        own.insert(arena);
        now_us += 1000;
        end_use(*arena);
        retire_arena(arena);
      }
      const std::lock_guard lock(mutex);
      seen.insert(own.begin(), own.end());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(shared, 0);
  // Some 1,000 wait. A thread that is off the CPU while it takes one makes others take new ones.
  EXPECT_LT(seen.size(), 40'000U) << "of 80,000 threads";
}

// The list of those that wait is not copied at one time.
TEST(Quarantine, AForkedChildTakesNoArenaOfItsParents) {
  forget_shared_memory();  // that of other tests
  std::vector<Arena*> parents;
  for (int i = 0; i < 100; ++i) parents.push_back(acquire_arena());
  for (Arena* arena : parents) retire_arena(arena);
  now_us += 2'000'000;
  EXPECT_TRUE(in_child([&] {
    Arena* own = acquire_arena();
    return own != nullptr && std::find(parents.begin(), parents.end(), own) == parents.end();
  }));
  EXPECT_EQ(acquire_arena(), parents.front());
}

TEST(Cells, CellsThatWereNotUsedServeTheNextThread) {
  Cells* first = make_cells();
  Cells* second = make_cells();
  unmake_cells(first);
  unmake_cells(second);
  const std::set<Cells*> made{first, second}, again{make_cells(), make_cells()};
  EXPECT_EQ(made, again);
  EXPECT_EQ(made.count(make_cells()), 0U);
}

#if defined(__x86_64__) && !VITRINE_DETAIL_THREAD_SANITIZER

Cut handlers;
void cut_by_handler() {
  handlers = cut(64 * 1024, 64 * 1024);
}

void cut_at_every_instruction(bool from_a_new_slab) {
  std::vector<Cut> all;
  all.reserve(10'000);
  const long met = test::Stepping::each(cut_by_handler, [&](long) {
    if (from_a_new_slab) forget_slab();
    handlers = Cut{};
    test::Stepping::on();
    const Cut own = cut(256 * 1024, 8 * 1024);
    test::Stepping::off();
    ASSERT_NE(own.begin, 0U);
    all.push_back(own);
    if (handlers.end != 0) all.push_back(handlers);
  });
  EXPECT_GT(met, from_a_new_slab ? 40 : 10);
  expect_apart(std::move(all));
}

TEST(Slab, HandlersCutAtEveryInstruction) {
  cut(max_cut_bytes, piece);
  cut_at_every_instruction(false);
}
TEST(Slab, HandlersCutAtEveryInstructionOfMappingAnother) {
  cut_at_every_instruction(true);
}

Arena* of_handler;
void begin_and_end_a_thread() {
  if (of_handler != nullptr) retire_arena(of_handler);
  of_handler = acquire_arena();
}

// What is taken or given back at any instruction is had once, and is not lost.
TEST(Quarantine, HandlersTakeAndGiveBackAtEveryInstruction) {
  forget_shared_memory();  // that of other tests
  std::set<Arena*> all;
  std::vector<Arena*> taken;
  for (int i = 0; i < 100; ++i) taken.push_back(acquire_arena());
  for (Arena* arena : taken) retire_arena(arena);
  all.insert(taken.begin(), taken.end());
  const long met = test::Stepping::each(begin_and_end_a_thread, [&](long) {
    now_us += 2'000'000;
    test::Stepping::on();
    Arena* one = acquire_arena();
    Arena* other = acquire_arena();
    retire_arena(one);
    test::Stepping::off();
    ASSERT_NE(one, other);
    ASSERT_NE(other, of_handler);
    all.insert({one, other});
    if (of_handler != nullptr) all.insert(of_handler);
    retire_arena(other);
  });
  EXPECT_GT(met, 100);
  if (of_handler != nullptr) retire_arena(of_handler);
  now_us += 2'000'000;
  std::set<Arena*> found;
  for (std::size_t i = 0; i < all.size(); ++i) found.insert(acquire_arena());
  EXPECT_EQ(found, all);
}

sigjmp_buf out_of_handler;

// A handler that jumps out of it at any instruction costs no more than the arenas that waited.
TEST(Quarantine, AJumpOutOfItIsOverWhenTheThreadEnds) {
  forget_shared_memory();  // that of other tests
  std::set<Arena*> known;
  const long met = test::Stepping::each([] { siglongjmp(out_of_handler, 1); },
                                        [&](long) {
                                          Arena* waits = acquire_arena();
                                          known.insert(waits);
                                          retire_arena(waits);
                                          now_us += 2'000'000;
                                          if (sigsetjmp(out_of_handler, 1) == 0) {
                                            test::Stepping::on();
                                            Arena* arena = acquire_arena();
                                            test::Stepping::off();
                                            known.insert(arena);
                                            retire_arena(arena);
                                          }
                                          end_taking();
                                          Arena* one = acquire_arena();
                                          ASSERT_NE(one, nullptr);
                                          known.insert(one);
                                          retire_arena(one);
                                          now_us += 2'000'000;
                                          Arena* other = acquire_arena();
                                          EXPECT_TRUE(known.count(other) == 1)
                                              << "a new one, though others wait";
                                          ASSERT_TRUE(begin_use(*other));
                                          end_use(*other);
                                          retire_arena(other);
                                        });
  EXPECT_GT(met, 40);
}

#endif

}  // namespace
}  // namespace vitrine::publish
