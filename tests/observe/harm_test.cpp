// What reading does to the process that is read: nothing, in every mode, however the reader ends.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "observe/bpf_objects.hpp"
#include "observe/observe_subject.hpp"

namespace vitrine::observe {
namespace {

using namespace std::chrono_literals;
using test::ask;
using test::expect_counting_on;
using test::expect_unharmed;
using test::start_subject;

std::string mode_name(const testing::TestParamInfo<Mode>& row) {
  return std::string(name(row.param));
}

class Killed : public testing::TestWithParam<Mode> {};

TEST_P(Killed, LeavesNothingBehind) {
  test::Child target = start_subject("work");
  const auto before = test::bpf_objects();
  std::minstd_rand random(20261121);
  // Some are killed while they load their programs, most in the midst of reading.
  std::uniform_int_distribution<int> moment(0, 60'000);
  for (int kill = 0; kill < 100; ++kill) {
    const auto counts = ask(target);
    test::Child reader = test::Child::spawn(
        {OBSERVE_READER, std::string(name(GetParam())), std::to_string(target.pid()), "0", "1"});
    std::this_thread::sleep_for(std::chrono::microseconds(moment(random)));
    reader.signal(SIGKILL);
    ASSERT_EQ(reader.wait(), 128 + SIGKILL);
    expect_unharmed(target.pid());
    ASSERT_NO_FATAL_FAILURE(expect_counting_on(target, counts));
  }
  EXPECT_THAT(test::left_behind(before), testing::IsEmpty());
  fmt::print("{}: killed at 100 points, all threads count on\n", name(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Modes, Killed, testing::Values(Mode::snapshot, Mode::ebpf, Mode::ptrace),
                         mode_name);

class Harm : public testing::TestWithParam<Mode> {};

TEST_P(Harm, NoSignalIsLostAndNoRestartableCallInterrupted) {
  test::Child target = start_subject("signals");
  auto reader = test::open_reader(target.pid(), GetParam());
  ASSERT_TRUE(reader);
  long sent = 0;
  std::thread sender([&] {
    // Queued one by one: a real-time signal is never merged with another.
    for (; sent < 2000; ++sent) {
      while (::sigqueue(target.pid(), SIGRTMIN, sigval{}) != 0) std::this_thread::sleep_for(1ms);
      if (sent % 10 == 0) std::this_thread::sleep_for(1ms);
    }
  });
  for (int i = 0; i < 100; ++i) {
    auto snapshot = reader->read(2ms);
    ASSERT_TRUE(snapshot) << snapshot.error().message;
  }
  sender.join();
  std::vector<long> seen;
  for (int attempt = 0; attempt < 100; ++attempt) {
    seen = ask(target);
    ASSERT_EQ(seen.size(), 3u);
    if (seen[0] == sent) break;
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_EQ(seen[0], sent);
  EXPECT_EQ(seen[1], 0) << "read, nanosleep and poll are restarted by the kernel";
  // epoll_wait is not: that a stop ends it with EINTR cannot be prevented (signal(7)).
  if (GetParam() != Mode::ptrace) {
    EXPECT_EQ(seen[2], 0);
  }
  fmt::print("{}: {} of {} signals, {} epoll_wait calls ended with EINTR\n", name(GetParam()),
             seen[0], sent, seen[2]);
  expect_unharmed(target.pid());
}

TEST_P(Harm, StoppedProcessIsReadAndStaysStopped) {
  test::Child target = start_subject("work");
  auto reader = test::open_reader(target.pid(), GetParam());
  ASSERT_TRUE(reader);
  target.signal(SIGSTOP);
  while (test::threads_of(target.pid()).begin()->second.state != 'T')
    std::this_thread::sleep_for(1ms);
  auto snapshot = reader->read(50ms);
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  if (GetParam() != Mode::ebpf) {
    EXPECT_EQ(snapshot->threads.size(), 5u);
    for (const ThreadLabels& thread : snapshot->threads) {
      EXPECT_EQ(thread.evidence, GetParam() == Mode::ptrace ? Evidence::stopped : Evidence::proven);
      EXPECT_EQ(test::value_of(thread, "tid"), std::to_string(thread.tid));
    }
  }
  std::this_thread::sleep_for(20ms);
  for (const auto& [tid, status] : test::threads_of(target.pid())) {
    EXPECT_EQ(status.state, 'T') << tid;
    EXPECT_EQ(status.tracer, 0) << tid;
  }
  target.signal(SIGCONT);
  expect_unharmed(target.pid());
  EXPECT_EQ(ask(target).size(), 4u);
}

TEST_P(Harm, ThreadThatWaitsForItsVforkChildHoldsNobodyUp) {
  test::Child target = start_subject("vfork");
  std::this_thread::sleep_for(50ms);
  auto reader = test::open_reader(target.pid(), GetParam());
  ASSERT_TRUE(reader);
  const auto begin = std::chrono::steady_clock::now();
  auto snapshot = reader->read(50ms);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  EXPECT_EQ(ask(target), std::vector<long>{0}) << "the child must still run";
  if (GetParam() != Mode::ebpf) {
    ASSERT_EQ(snapshot->threads.size(), 2u);
    const ThreadLabels& waits = snapshot->threads[1];
    if (GetParam() == Mode::ptrace) {
      ASSERT_FALSE(waits.set);
      EXPECT_THAT(waits.set.error().message, testing::HasSubstr("did not stop within"));
      EXPECT_THAT(snapshot->notes,
                  testing::Contains("1 of 2 threads did not stop in time and were not read"));
    } else {
      EXPECT_EQ(test::value_of(waits, "tid"), std::to_string(waits.tid));
    }
    EXPECT_EQ(test::value_of(snapshot->threads[0], "tid"), std::to_string(target.pid()));
  }
  expect_unharmed(target.pid());
  for (int attempt = 0; ask(target) != std::vector<long>{1}; ++attempt) {
    ASSERT_LT(attempt, 500) << "it does not go on";
    std::this_thread::sleep_for(10ms);
  }
  expect_unharmed(target.pid());
}

INSTANTIATE_TEST_SUITE_P(Modes, Harm, testing::Values(Mode::snapshot, Mode::ebpf, Mode::ptrace),
                         mode_name);

// As on a busy machine, where a thread may not get a CPU in time: it is tried again, with more time.
TEST(Stopping, ThreadsThatAreLateAreTriedAgain) {
  const test::Child target = start_subject("vforks");
  observe::LabelOptions options;
  options.mode = Mode::ptrace;
  options.stop_deadline = 300ms;
  auto reader = observe::LabelReader::open(target.pid(), options);
  ASSERT_TRUE(reader) << reader.error().message;
  for (int i = 0; i < 8; ++i) {
    const auto snapshot = (*reader)->read(0ms);
    ASSERT_TRUE(snapshot) << snapshot.error().message;
    ASSERT_EQ(snapshot->threads.size(), 2U);
    for (const ThreadLabels& thread : snapshot->threads)
      EXPECT_EQ(test::value_of(thread, "tid"), std::to_string(thread.tid)) << i;
  }
  expect_unharmed(target.pid());
}

/// A tracer that holds threads, running, as strace does.
class Tracer {
 public:
  explicit Tracer(const std::vector<pid_t>& tids) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      for (const pid_t tid : tids)
        if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) ::_exit(1);
      if (::write(ready[1], "", 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    ::close(ready[1]);
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
  }
  ~Tracer() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;
  [[nodiscard]] std::string name() const { return fmt::format("{} (observe_harm_te)", pid_); }

 private:
  pid_t pid_ = -1;
};

TEST(Traced, ByAnotherTracerIsReadBySnapshotAndRefusedByPtrace) {
  test::Child target = start_subject("work");
  std::vector<pid_t> tids;
  for (const auto& thread : test::threads_of(target.pid())) tids.push_back(thread.first);
  const Tracer tracer(tids);
  auto stops = test::open_reader(target.pid(), Mode::ptrace);
  ASSERT_TRUE(stops);
  const auto refused = stops->read(0ms);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::failed);
  EXPECT_THAT(refused.error().message,
              testing::HasSubstr("no thread can be stopped: process " + tracer.name()));
  EXPECT_THAT(refused.error().remedy, testing::HasSubstr("snapshot"));
  auto looks = test::open_reader(target.pid(), Mode::snapshot);
  ASSERT_TRUE(looks);
  auto read = looks->read(0ms);
  ASSERT_TRUE(read) << read.error().message;
  for (const ThreadLabels& thread : read->threads)
    EXPECT_EQ(test::value_of(thread, "tid"), std::to_string(thread.tid));
}

TEST(Traced, InOneThreadIsReadByPtraceInTheOthers) {
  test::Child target = start_subject("work");
  const Tracer tracer({target.pid()});
  auto stops = test::open_reader(target.pid(), Mode::ptrace);
  ASSERT_TRUE(stops);
  const auto read = stops->read(0ms);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->threads.size(), 5U);
  for (const ThreadLabels& thread : read->threads) {
    if (thread.tid != target.pid()) {
      EXPECT_EQ(test::value_of(thread, "tid"), std::to_string(thread.tid));
      continue;
    }
    ASSERT_FALSE(thread.set);
    EXPECT_EQ(thread.set.error().code, ErrorCode::not_permitted);
    EXPECT_THAT(thread.set.error().message,
                testing::HasSubstr("already traced, by process " + tracer.name()));
  }
}

}  // namespace
}  // namespace vitrine::observe
