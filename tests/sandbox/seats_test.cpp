// How many processes there are at once, whatever threads ask of their workers; and that those which are
// ended to make room, or because nobody asks them, cost no request.
#include "sandbox/seats.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <list>
#include <random>
#include <thread>
#include <vector>

#include "sandbox/worker.hpp"

namespace vitrine::sandbox {
namespace {

using namespace std::chrono_literals;

/// By the kernel's count. Zombies count, too.
int children() {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream in(task.path() / "children");
    for (pid_t child; in >> child;) ++count;
  }
  return count;
}

/// How often this worker was asked.
Result<int> count_requests(const Nothing&, FileDescriptor) {
  static int count = 0;
  return ++count;
}

Result<int> work(const int& number, FileDescriptor) {
  std::this_thread::yield();
  return number * 2;
}

TEST(Seats, AreTakenFromWorkersThatNobodyAsks) {
  std::list<Parser> parsers(12);
  for (int round = 0; round < 3; ++round)
    for (Parser& parser : parsers) {
      EXPECT_EQ(parser.ask<&work>(21, -1).value(), 42);
      EXPECT_LE(children(), max_children);
    }
  parsers.clear();
  EXPECT_EQ(children(), 0);
  EXPECT_EQ(Child::alive(), 0);
}

TEST(Seats, OfAWorkerThatIsHeldAreNotTaken) {
  Parser kept;
  const auto held = kept.hold();
  ASSERT_TRUE(held);
  const auto number = kept.worker_number();
  ASSERT_NE(number, 0U);
  EXPECT_EQ(kept.ask<&count_requests>({}, -1).value(), 1);
  std::list<Parser> others(12);
  for (Parser& other : others) EXPECT_EQ(other.ask<&count_requests>({}, -1).value(), 1);
  EXPECT_EQ(kept.ask<&count_requests>({}, -1).value(), 2);
  EXPECT_EQ(kept.worker_number(), number);
  EXPECT_LE(children(), max_children);
}

TEST(Seats, OfIdleWorkersAreGivenBack) {
  Limits brief, patient;
  brief.idle = 0ms;
  patient.idle = 1h;
  Parser first(brief), second(patient);
  EXPECT_EQ(first.ask<&count_requests>({}, -1).value(), 1);
  EXPECT_EQ(second.ask<&count_requests>({}, -1).value(), 1);
  {
    const auto held = first.hold();
    end_idle_workers();
    EXPECT_EQ(children(), 2);
  }
  end_idle_workers();
  EXPECT_EQ(children(), 1);
  EXPECT_EQ(first.ask<&count_requests>({}, -1).value(), 1);  // by another one
  EXPECT_EQ(second.ask<&count_requests>({}, -1).value(), 2);
}

/// Threads that ask, hold and wait in a random order, and one that ends what is idle.
TEST(Seats, AreBoundedWhateverThreadsDo) {
  std::atomic<int> most{0}, wrong{0}, running{8};
  std::vector<std::jthread> threads;
  for (unsigned seed = 0; seed < 8; ++seed)
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      Limits limits;
      limits.idle = std::chrono::milliseconds(random() % 20);
      Parser parser(limits);
      for (int n = 0; n < 60; ++n) {
        if (random() % 4 == 0) {
          const auto held = parser.hold();
          const int before = parser.ask<&count_requests>({}, -1).value_or(0);
          if (parser.ask<&count_requests>({}, -1).value_or(0) != before + 1) ++wrong;
        } else if (parser.ask<&work>(n, -1).value_or(-1) != n * 2) {
          ++wrong;
        }
        if (random() % 3 == 0)
          std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
      }
      --running;
    });
  while (running > 0) {
    most = std::max(most.load(), Child::alive());
    end_idle_workers();
    std::this_thread::sleep_for(200us);
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(most, max_children);
  EXPECT_EQ(children(), 0);
}

}  // namespace
}  // namespace vitrine::sandbox
