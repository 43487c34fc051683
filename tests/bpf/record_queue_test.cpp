// The queue between the thread that empties the kernel's buffer and the one that shows records, against
// a model (a list), one operation after the other and with two threads.
#include "bpf/record_queue.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <fstream>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>

namespace vitrine::bpf {
namespace {

using namespace std::chrono_literals;

RecordQueue::Clock::time_point now() {
  return RecordQueue::Clock::now();
}

/// A record that shows its number, of a length that depends on it.
std::vector<std::byte> record_of(std::uint64_t number) {
  const std::size_t length = sizeof number + number * 37 % 5000;
  std::vector<std::byte> bytes(length, std::byte{static_cast<unsigned char>(number)});
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

bool is_record(std::span<const std::byte> bytes, std::uint64_t number) {
  const auto expected = record_of(number);
  return std::equal(bytes.begin(), bytes.end(), expected.begin(), expected.end());
}

TEST(RecordQueue, DoesAsAListDoes) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    RecordQueue queue(100'000);
    std::deque<std::uint64_t> unpublished, published;  // the model
    std::uint64_t next = 0;
    bool has_room = true;
    for (int step = 0; step < 2000; ++step) switch (random() % 4) {
        case 0:
        case 1:
          if (!has_room) break;
          has_room = queue.put(record_of(next));
          unpublished.push_back(next++);
          break;
        case 2:
          queue.publish();
          published.insert(published.end(), unpublished.begin(), unpublished.end());
          unpublished.clear();
          break;
        default:
          // A chunk that became full is published with the others of it.
          if (!queue.wait(now())) {
            ASSERT_TRUE(published.empty()) << seed;
            break;
          }
          if (published.empty()) std::swap(published, unpublished);
          for (int taken = 0; taken < 3; ++taken) {
            const auto record = queue.take();
            if (record.empty()) break;
            if (published.empty()) std::swap(published, unpublished);
            ASSERT_FALSE(published.empty());
            ASSERT_TRUE(is_record(record, published.front())) << seed << ' ' << published.front();
            published.pop_front();
          }
          has_room = queue.wait_for_room(now());
      }
    EXPECT_LE(queue.held(), 100'000 + 5200);
    EXPECT_EQ(queue.dropped(), 0u);
  }
}

TEST(RecordQueue, HandsOverEachRecordOnceInOrder) {
  constexpr std::uint64_t records = 200'000;
  RecordQueue queue(1U << 20);
  std::thread collector([&] {
    std::mt19937 random(1);
    for (std::uint64_t number = 0; number < records;) {
      if (!queue.wait_for_room(now() + 10ms)) continue;
      bool room = true;
      for (std::uint64_t batch = random() % 300 + 1; room && batch > 0 && number < records; --batch)
        room = queue.put(record_of(number++));
      queue.publish();
    }
  });
  std::uint64_t seen = 0;
  bool all = true;
  while (seen < records && all) {
    if (!queue.wait(now() + 60s)) break;
    for (auto record = queue.take(); !record.empty() && all; record = queue.take())
      all = is_record(record, seen++);
  }
  EXPECT_TRUE(all) << seen;
  EXPECT_EQ(seen, records);
  while (seen < records && queue.wait(now() + 10s))  // so that the other thread ends
    while (!queue.take().empty()) ++seen;
  collector.join();
  EXPECT_FALSE(queue.wait(now()));
  EXPECT_EQ(queue.held(), 0u);
}

/// As RecordRing has it: a buffer that is emptied into the queue by a thread that is woken now and then, and by
/// the one that takes records out. What was in the buffer before the latter's pass has come after it.
TEST(RecordQueue, IsFilledByTheThreadThatEmptiesItToo) {
  constexpr std::uint64_t records = 30'000;
  RecordQueue queue(1U << 20);
  std::mutex passing;
  std::atomic<std::uint64_t> written{0};
  std::uint64_t moved = 0;  // out of the buffer; under the mutex
  // Whether the buffer is empty after it; nothing: the other thread is at it.
  const auto pass = [&]() -> std::optional<bool> {
    const std::unique_lock lock(passing, std::try_to_lock);
    if (!lock) return std::nullopt;
    bool has_room = queue.wait_for_room(now());
    while (has_room && moved < written) has_room = queue.put(record_of(moved++));
    queue.publish();
    return has_room;
  };
  std::thread program([&] {
    for (std::mt19937 random(1); written < records;) {
      written = std::min<std::uint64_t>(written + random() % 300, records);
      std::this_thread::yield();
    }
  });
  std::thread collector([&] {
    for (std::mt19937 random(2); written < records;) {
      if (queue.wait_for_room(now() + 10ms)) pass();
      for (auto pause = random() % 50; pause > 0; --pause) std::this_thread::yield();
    }
  });
  std::uint64_t seen = 0;
  bool all = true, in_time = true;
  for (const auto end = now() + 60s; seen < records && all && now() < end;) {
    const std::uint64_t before = written;
    const std::optional<bool> passed = pass();
    while (all && queue.wait(now()))
      for (auto record = queue.take(); !record.empty() && all; record = queue.take())
        all = is_record(record, seen++);
    if (passed == true) in_time = in_time && seen >= before;
  }
  EXPECT_TRUE(all) << seen;
  EXPECT_TRUE(in_time);
  EXPECT_EQ(seen, records);
  program.join();
  collector.join();
  EXPECT_EQ(queue.held(), 0u);
}

std::size_t mapped_bytes() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(RecordQueue, HoldsLittleMoreThanItsRecords) {
  const std::size_t before = mapped_bytes();
  RecordQueue queue(64U << 20);
  for (int record = 0; record < 20'000; ++record) {
    ASSERT_TRUE(queue.put(std::vector<std::byte>(100)));
    queue.publish();  // each by itself, and nobody takes them
  }
  EXPECT_LT(mapped_bytes() - before, 3 * queue.held());
  std::size_t taken = 0;
  while (queue.wait(now()))
    while (!queue.take().empty()) ++taken;
  EXPECT_EQ(taken, 20'000u);
  EXPECT_LT(mapped_bytes() - before, std::size_t{4} << 20);
}

TEST(RecordQueue, TakesOneRecordBeyondItsBound) {
  RecordQueue queue(10);
  EXPECT_FALSE(queue.put(std::vector<std::byte>(3'000'000)));  // larger than a chunk
  EXPECT_FALSE(queue.wait_for_room(now()));
  queue.publish();
  ASSERT_TRUE(queue.wait(now()));
  EXPECT_EQ(queue.take().size(), 3'000'000u);
  EXPECT_TRUE(queue.take().empty());
  EXPECT_FALSE(queue.wait(now()));
  EXPECT_TRUE(queue.wait_for_room(now()));
}

}  // namespace
}  // namespace vitrine::bpf
