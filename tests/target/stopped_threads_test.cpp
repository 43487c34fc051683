// Stopping threads for a moment: each is visited once, and all run on.
#include "target/stopped_threads.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <thread>

#include "target/proc_file.hpp"
#include "target/threads.hpp"
#include "target_subject.hpp"

namespace vitrine::target {
namespace {

using namespace std::chrono_literals;
using testing::Each;

struct StoppedThreads : testing::Test {
  /// More than are asked to stop at a time.
  void SetUp() override {
    for (int i = 0; i < 50; ++i) ASSERT_NE(subject.ask("thread " + std::to_string(i)), "");
    tids = *thread_ids(process.proc_dir());
    ASSERT_EQ(tids.size(), 51U);
  }

  [[nodiscard]] std::string status_of(pid_t tid, std::string_view field) const {
    const auto status =
        read_file_at(process.proc_dir(), "task/" + std::to_string(tid) + "/status", 4096);
    return std::string(status ? status_field(*status, field).value_or("absent") : "gone");
  }

  Subject subject;
  Process process = *Process::open(subject.child.pid());
  std::vector<pid_t> tids;
};

TEST_F(StoppedThreads, AreVisitedOnceEachWhileTheyStand) {
  std::vector<int> visits(tids.size());
  std::map<pid_t, Address> pointers;
  visit_stopped(process, tids, 20s, nullptr, [&](std::size_t index, const Result<Address>& tp) {
    ++visits[index];
    ASSERT_TRUE(tp) << tp.error().message;
    pointers[tids[index]] = *tp;
    EXPECT_THAT(status_of(tids[index], "State"), testing::StartsWith("t"));
  });
  EXPECT_THAT(visits, Each(1));
  EXPECT_EQ(pointers.size(), tids.size());
  for (const pid_t tid : tids) EXPECT_EQ(status_of(tid, "TracerPid"), "0");
  EXPECT_EQ(subject.ask("join"), "joined") << "they run on";
}

TEST_F(StoppedThreads, ThatHaveEndedAreTold) {
  ASSERT_EQ(subject.ask("join"), "joined");  // one of them
  // Who joins it hears of its end a moment before it is one.
  const auto budget = std::chrono::steady_clock::now() + 20s;
  while (thread_ids(process.proc_dir())->size() == tids.size() &&
         std::chrono::steady_clock::now() < budget)
    std::this_thread::sleep_for(1ms);
  std::size_t ended = 0, stopped = 0;
  visit_stopped(process, tids, 20s, nullptr, [&](std::size_t, const Result<Address>& tp) {
    ++(tp ? stopped : ended);
    if (!tp) {
      EXPECT_EQ(tp.error().code, ErrorCode::not_found) << tp.error().message;
    }
  });
  EXPECT_EQ(ended, 1U);
  EXPECT_EQ(stopped, tids.size() - 1);
}

TEST_F(StoppedThreads, AreLeftInPeaceOnceItIsCancelled) {
  std::atomic<bool> cancel = false;
  std::size_t visits = 0;
  visit_stopped(process, tids, 20s, &cancel, [&](std::size_t, const Result<Address>&) {
    ++visits;
    cancel = true;
  });
  EXPECT_EQ(visits, 1U);
  for (const pid_t tid : tids) EXPECT_EQ(status_of(tid, "TracerPid"), "0");
  EXPECT_EQ(subject.ask("join"), "joined");
}

// Where the ids of threads have begun anew, a thread that executes may be seized before the leader
// whose number it gets.
TEST(ThreadExec, IsNotTheWorkOfAnotherTracer) {
  const test::Child subject = test::Child::spawn({THREAD_EXEC});
  const auto begin = std::chrono::steady_clock::now();
  const auto goes_on_for = [&](auto time) {
    return std::chrono::steady_clock::now() - begin < time;
  };
  auto process = Process::open(subject.pid());
  while (!process && goes_on_for(20s)) process = Process::open(subject.pid());  // amid an exec
  ASSERT_TRUE(process) << process.error().message;
  std::size_t visits = 0, ended = 0;
  // As often as the order of events that this is about takes; longer on a busy machine.
  while (goes_on_for(1s) || (ended == 0 && goes_on_for(20s))) {
    auto tids = thread_ids(process->proc_dir());
    ASSERT_TRUE(tids) << tids.error().message;
    std::reverse(tids->begin(), tids->end());
    visit_stopped(*process, *tids, 20s, nullptr, [&](std::size_t, const Result<Address>& tp) {
      ++(tp ? visits : ended);
      if (!tp) {
        EXPECT_THAT(tp.error().message, testing::Not(testing::HasSubstr("traced")));
      }
    });
  }
  EXPECT_GT(visits, 0U);
  EXPECT_GT(ended, 0U);
}

class StuckExec : public testing::Test {
 protected:
  void SetUp() override {
    pid = std::stoi(parent.read_line().value_or("0"));
    auto opened = Process::open(pid);
    ASSERT_TRUE(opened) << opened.error().message;
    process.emplace(std::move(*opened));
  }

  test::Child parent = test::Child::spawn({STUCK_EXEC});
  pid_t pid = 0;
  std::optional<Process> process;
};

TEST_F(StuckExec, IsToldAndNotWaitedFor) {
  const auto begin = std::chrono::steady_clock::now();
  std::size_t visits = 0;
  visit_stopped(*process, std::array{pid}, 100ms, nullptr,
                [&](std::size_t, const Result<Address>& tp) {
                  ++visits;
                  ASSERT_FALSE(tp);
                  EXPECT_THAT(tp.error().message, testing::HasSubstr("executing another program"));
                });
  EXPECT_EQ(visits, 1U);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
}

TEST_F(StuckExec, IsLeftAloneOnceItIsCancelled) {
  std::atomic<bool> cancel = false;
  const std::jthread canceller([&] {
    std::this_thread::sleep_for(50ms);
    cancel = true;
  });
  const auto begin = std::chrono::steady_clock::now();
  visit_stopped(*process, std::array{pid}, 60s, &cancel,
                [](std::size_t, const Result<Address>&) { ADD_FAILURE() << "it is cancelled"; });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
}

}  // namespace
}  // namespace vitrine::target
