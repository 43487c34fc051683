// Events of processes, while a second thread makes room for them.
#include "target/process_events.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

namespace vitrine::target {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds longest_wait{20'000};

/// A process that has ended.
pid_t one_process() {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  EXPECT_EQ(::waitpid(pid, nullptr, 0), pid);
  return pid;
}

class ProcessEventsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = ProcessEvents::open();
    if (!opened && opened.error().code == ErrorCode::not_permitted)
      GTEST_SKIP() << opened.error().message;
    ASSERT_TRUE(opened) << opened.error().message;
    events_ = std::move(*opened);
  }

  void TearDown() override {
    if (!collector_.joinable()) return;
    collector_.request_stop();
    events_->end_waits();
    collector_.join();
  }

  void collect_in_background() {
    collector_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        events_->wait_for_many();
        collected_ = events_->collect();
      }
    });
  }

  std::unique_ptr<ProcessEvents> events_;
  std::atomic<std::size_t> collected_{0};
  std::jthread collector_;
};

TEST_F(ProcessEventsTest, WakeTheThreadThatTakesThem) {
  collect_in_background();
  for (int n = 0; n < 500 && !HasFailure(); ++n) {
    const pid_t wanted = one_process();
    std::set<pid_t> ended;
    while (!ended.contains(wanted) && events_->wait(longest_wait))
      for (const ProcessEvent& event : events_->take())
        if (event.kind == ProcessEvent::Kind::exited) ended.insert(event.pid);
    EXPECT_TRUE(ended.contains(wanted)) << "process " << n << " of 500";
  }
}

// Several times what the kernel's buffers take.
TEST_F(ProcessEventsTest, AreKeptWhileTheThreadThatTakesThemIsAtSomethingElse) {
  collect_in_background();
  constexpr std::size_t all = 20'000, at_once = 500, may_be_left = 1500;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  for (std::size_t mapped = 0; mapped < all; mapped += at_once) {
    for (std::size_t n = 0; n < at_once; ++n) {
      void* code = ::mmap(nullptr, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      ASSERT_NE(code, MAP_FAILED);
      ::munmap(code, page);
    }
    const auto end = std::chrono::steady_clock::now() + longest_wait;
    while (collected_ + may_be_left < mapped + at_once) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << "of " << mapped << ": " << collected_;
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  std::size_t seen = 0;
  for (const ProcessEvent& event : events_->take())
    if (event.kind == ProcessEvent::Kind::mapped && event.pid == ::getpid()) ++seen;
  EXPECT_EQ(seen, all);
}

TEST_F(ProcessEventsTest, EndOfWaitsIsForGood) {
  events_->end_waits();
  events_->wait_for_many();
  std::jthread other([&] { events_->wait_for_many(); });
}

}  // namespace
}  // namespace vitrine::target
