// Threads of a process, and their thread pointers without stopping them.
#include "target/threads.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <sstream>
#include <thread>

#include "support/buffer_memory.hpp"
#include "target/libc.hpp"
#include "target/proc_file.hpp"
#include "target/thread_pointer.hpp"
#include "target_subject.hpp"

namespace vitrine::target {
namespace {

struct Truth {
  pid_t tid = 0;
  Address tp = 0;
};

Truth parse(const std::string& line) {
  Truth truth;
  std::istringstream words(line);
  std::string tp;
  words >> truth.tid >> tp;
  truth.tp = std::stoull(tp, nullptr, 16);
  return truth;
}

TEST(Threads, ListsEachWithItsName) {
  Subject subject;
  const auto one = parse(subject.ask("thread alpha"));
  const auto two = parse(subject.ask("thread beta) R 1 2"));  // names are any bytes
  const Process process = *Process::open(subject.child.pid());
  const auto list = threads(process.proc_dir());
  ASSERT_TRUE(list) << list.error().message;
  ASSERT_EQ(list->size(), 3U);
  EXPECT_TRUE(std::is_sorted(list->begin(), list->end(),
                             [](const auto& a, const auto& b) { return a.id < b.id; }));
  const auto comm_of = [&](pid_t tid) {
    for (const Thread& thread : *list)
      if (thread.id.tid == tid) return thread.comm;
    return std::string("absent");
  };
  EXPECT_EQ(comm_of(one.tid), "alpha");
  EXPECT_EQ(comm_of(two.tid), "beta) R 1 2");
}

TEST(Threads, ComeAndGo) {
  Subject subject;
  const Process process = *Process::open(subject.child.pid());
  const auto before = *thread_ids(process.proc_dir());
  const auto truth = parse(subject.ask("thread late"));
  const auto during = *thread_ids(process.proc_dir());
  std::vector<pid_t> born;
  std::set_difference(during.begin(), during.end(), before.begin(), before.end(),
                      std::back_inserter(born));
  EXPECT_THAT(born, testing::ElementsAre(truth.tid));
  ASSERT_EQ(subject.ask("join"), "joined");
  // Who joins it hears of its end a moment before it is one.
  const auto budget = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (thread(process.proc_dir(), truth.tid) && std::chrono::steady_clock::now() < budget)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_FALSE(thread(process.proc_dir(), truth.tid));
}

TEST(Threads, OfAnEndedProcessAreNotFound) {
  Subject subject;
  const Process process = *Process::open(subject.child.pid());
  subject.child.close_stdin();
  ASSERT_EQ(subject.child.wait(), 0);
  const auto list = threads(process.proc_dir());
  ASSERT_FALSE(list);
  EXPECT_EQ(list.error().code, ErrorCode::not_found);
}

TEST(ThreadPointers, AreFoundWithoutStoppingAnyone) {
  Subject subject;
  std::vector<Truth> truths{parse(subject.greeting)};
  for (int i = 0; i < 20; ++i) truths.push_back(parse(subject.ask("thread t")));
  const Process process = *Process::open(subject.child.pid());
  const auto list = *threads(process.proc_dir());
  ThreadPointers pointers;
  const auto found = pointers.find(process, list);
  ASSERT_EQ(found.size(), truths.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto truth = std::find_if(truths.begin(), truths.end(),
                                    [&](const Truth& t) { return t.tid == list[i].id.tid; });
    ASSERT_NE(truth, truths.end());
    EXPECT_EQ(found[i], truth->tp) << "tid " << truth->tid;
  }
}

/// A ring of musl's structures, the first of them at `ring_base`. The `ending` one leads to itself.
constexpr Address ring_base = 0x10000;
constexpr std::size_t member_bytes = 64;

void place_members(test::BufferMemory& memory, std::size_t count,
                   std::optional<std::size_t> ending = std::nullopt) {
  std::vector<std::byte> bytes(count * member_bytes);
  for (std::size_t i = 0; i < count; ++i) {
    const Address at = ring_base + i * member_bytes;
    const Address previous = ring_base + (i + count - 1) % count * member_bytes;
    const Address next = i == ending ? at : ring_base + (i + 1) % count * member_bytes;
    const auto tid = static_cast<std::int32_t>(i + 1);
    std::memcpy(&bytes[i * member_bytes], &at, sizeof at);
    std::memcpy(&bytes[i * member_bytes + 16], &previous, sizeof previous);
    std::memcpy(&bytes[i * member_bytes + 24], &next, sizeof next);
    std::memcpy(&bytes[i * member_bytes + 48], &tid, sizeof tid);
  }
  memory.place(ring_base, std::move(bytes));
}

/// A ring of so many, read with `reads_left`.
MuslRing read_ring(std::size_t members, std::size_t& reads_left) {
  test::BufferMemory memory;
  place_members(memory, members);
  return musl_ring(memory, Machine::x86_64, ring_base, reads_left);
}

TEST(MuslRing, IsReadWhole) {
  std::size_t reads_left = 100;
  const MuslRing ring = read_ring(5, reads_left);
  EXPECT_EQ(ring.pointers.size(), 5U);
  EXPECT_EQ(ring.pointers.at(3), ring_base + 2 * member_bytes);
  EXPECT_TRUE(ring.closed);
  EXPECT_FALSE(ring.cut);
  EXPECT_EQ(reads_left, 95U);
}

// The one before it was read when it still led there.
TEST(MuslRing, IsReadFromBothSidesOfOneThatEnds) {
  test::BufferMemory memory;
  place_members(memory, 5, 2);
  std::size_t reads_left = 100;
  const MuslRing ring = musl_ring(memory, Machine::x86_64, ring_base, reads_left);
  EXPECT_EQ(ring.pointers.size(), 5U);
  EXPECT_FALSE(ring.closed);
  EXPECT_FALSE(ring.cut);
}

TEST(MuslRing, IsCutWhereItCostsTooMuch) {
  std::size_t reads_left = 100;
  const MuslRing ring = read_ring(5000, reads_left);
  EXPECT_EQ(ring.pointers.size(), 100U);
  EXPECT_TRUE(ring.cut);
  EXPECT_EQ(reads_left, 0U);
}

TEST(Threads, AnEndedOneIsNotStillThere) {
  const FileDescriptor self(::open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ThreadId id;
  std::atomic<bool> end{false}, known{false};
  std::thread other([&] {
    if (const auto found = thread(self.get(), ::gettid())) id = found->id;
    known = true;
    while (!end) std::this_thread::yield();
  });
  while (!known) std::this_thread::yield();
  EXPECT_TRUE(is_still(self.get(), id));
  EXPECT_FALSE(is_still(self.get(), {id.tid, id.start_time + 1}));
  end = true;
  other.join();
  EXPECT_FALSE(is_still(self.get(), id));
}

TEST(Stat, TakesTheCommUpToTheLastParenthesis) {
  const auto stat =
      parse_stat("7 (a) S 1 (b) ) R 1 7 7 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 123456 0 0\n");
  ASSERT_TRUE(stat) << stat.error().message;
  EXPECT_EQ(stat->comm, "a) S 1 (b) ");
  EXPECT_EQ(stat->state, 'R');
  EXPECT_EQ(stat->flags, 4194560U);
  EXPECT_EQ(stat->start_time, 123456U);
}

TEST(Stat, RefusesWhatIsNone) {
  for (const char* line : {"", "7", "7 (x", "7 x)", "7 (x) S 1 2", ")(", "7 (x) SS 1 7 7 0 -1 4 0"})
    EXPECT_FALSE(parse_stat(line)) << line;
}

}  // namespace
}  // namespace vitrine::target
