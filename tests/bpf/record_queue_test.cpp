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

/// A record that shows its number, of a length that depends on it. Most are like others, as fires are.
std::vector<std::byte> record_of(std::uint64_t number) {
  const std::size_t length =
      sizeof number + (number % 5 == 0 ? number * 37 % 5000 : 200 + number % 3 * 8 + number % 2);
  std::vector<std::byte> bytes(length, std::byte{static_cast<unsigned char>(number % 4)});
  std::memcpy(bytes.data(), &number, sizeof number);
  for (std::size_t at = 24; at + 2 < length; at += 71)
    bytes[at + number % 3] = static_cast<std::byte>(number >> at % 9);
  return bytes;
}

std::uint64_t source_of(std::uint64_t number) {
  return number % 4 + number % 131;  // more than have a place of their own
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
    for (int step = 0; step < 2000; ++step) switch (random() % 5) {
        case 0:
        case 1:
          if (!has_room) break;
          has_room = queue.put(record_of(next), source_of(next));
          unpublished.push_back(next++);
          break;
        case 2:
          queue.publish();
          published.insert(published.end(), unpublished.begin(), unpublished.end());
          unpublished.clear();
          break;
        case 3:
          if (!queue.offer()) {
            ASSERT_FALSE(published.empty()) << seed;  // what else there is
            break;
          }
          published.insert(published.end(), unpublished.begin(), unpublished.end());
          unpublished.clear();
          break;
        default:
          if (!queue.wait(now())) {
            ASSERT_TRUE(published.empty()) << seed;
            break;
          }
          for (int taken = 0; taken < 3; ++taken) {
            const auto record = queue.take();
            if (record.empty()) break;
            ASSERT_FALSE(published.empty());  // no chunk becomes full, which would be published
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
        if (room = queue.put(record_of(number), source_of(number)); true) ++number;
      if (random() % 3 == 0)
        queue.publish();
      else
        queue.offer();
    }
    for (const auto end = now() + 60s; queue.held() != 0 && now() < end;) {
      queue.offer();
      std::this_thread::sleep_for(1ms);
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
  EXPECT_FALSE(queue.wait(now()));  // gives back what was taken: the other thread ends
  collector.join();
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
  const auto pass = [&](bool by_taker) -> std::optional<bool> {
    const std::unique_lock lock(passing, std::try_to_lock);
    if (!lock) return std::nullopt;
    bool has_room = queue.wait_for_room(now());
    for (; has_room && moved < written; ++moved)
      has_room = queue.put(record_of(moved), source_of(moved));
    if (by_taker)
      queue.publish();
    else
      queue.offer();
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
      if (queue.wait_for_room(now() + 10ms)) pass(false);
      for (auto pause = random() % 50; pause > 0; --pause) std::this_thread::yield();
    }
  });
  std::uint64_t seen = 0;
  bool all = true, in_time = true;
  for (const auto end = now() + 60s; seen < records && all && now() < end;) {
    const std::uint64_t before = written;
    const std::optional<bool> passed = pass(true);
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
  std::mt19937 random(1);
  std::vector<std::byte> record(100);
  for (int number = 0; number < 20'000; ++number) {
    for (std::byte& byte : record) byte = static_cast<std::byte>(random());
    ASSERT_TRUE(queue.put(record, 0));
    queue.offer();  // each by itself, and nobody takes them
  }
  EXPECT_LT(mapped_bytes() - before, 3 * queue.held());
  std::size_t taken = 0;
  for (queue.offer(); queue.wait(now()); queue.offer())
    while (!queue.take().empty()) ++taken;
  EXPECT_EQ(taken, 20'000u);
  EXPECT_LT(mapped_bytes() - before, std::size_t{4} << 20);
}

/// A record as fires are: a time, a thread, arguments, and what does not change.
std::vector<std::byte> fire_of(std::uint64_t number) {
  std::vector<std::uint64_t> words(28);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = i * 0x9e3779b97f4a7c15;
  words[0] = 1'764'000'000'000'000'000 + number * 1733;
  words[5] += number % 32;
  words[20] = number;
  std::vector<std::byte> bytes(words.size() * sizeof words[0]);
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

TEST(RecordQueue, KeepsWhatDiffers) {
  constexpr std::uint64_t fires = 100'000;
  RecordQueue queue(64U << 20);
  for (std::uint64_t number = 0; number < fires; ++number)
    ASSERT_TRUE(queue.put(fire_of(number), number % 32));
  queue.publish();
  EXPECT_LT(queue.held() / fires, 24u);  // of 224 bytes
  std::uint64_t seen = 0;
  while (queue.wait(now()))
    for (auto record = queue.take(); !record.empty(); record = queue.take()) {
      const auto expected = fire_of(seen++);
      ASSERT_TRUE(std::equal(record.begin(), record.end(), expected.begin(), expected.end()))
          << seen;
    }
  EXPECT_EQ(seen, fires);
}

TEST(RecordQueue, TakesOneRecordBeyondItsBound) {
  RecordQueue queue(10);
  EXPECT_FALSE(queue.put(std::vector<std::byte>(3'000'000), 0));  // larger than a chunk
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
