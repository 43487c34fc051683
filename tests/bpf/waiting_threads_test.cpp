// Off-CPU samples of threads that wait since before the profiler began.
#include <gmock/gmock.h>
#include <pthread.h>
#include <sys/prctl.h>

#include <chrono>
#include <map>
#include <mutex>
#include <sstream>

#include "bpf/own_profiler.hpp"

namespace vitrine::bpf {
namespace {

using std::chrono::nanoseconds;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(
      nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

/// A profile of this process between two lines of code: its window is between `least()` and `most()`.
class Window {
 public:
  explicit Window(const ProfilerOptions& options) : own(options), begun_(now_ns()) {}
  void end() {
    ending_ = now_ns();
    own.finish();
    after_ = now_ns();
  }
  [[nodiscard]] std::uint64_t least() const { return ending_ - begun_; }
  [[nodiscard]] std::uint64_t most() const { return after_ - before_; }

 private:
  std::uint64_t before_ = now_ns();

 public:
  OwnProfiler own;

 private:
  std::uint64_t begun_, ending_ = 0, after_ = 0;
};

/// A pipe, whose reader waits.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe(ends_), 0); }
  Pipe(const Pipe&) = delete;
  ~Pipe() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  void wait() {
    char byte = 0;
    while (::read(ends_[0], &byte, 1) < 0) {
    }
  }
  void wake() { EXPECT_EQ(::write(ends_[1], "x", 1), 1); }

 private:
  int ends_[2] = {-1, -1};
};

TEST(WaitingThreads, HaveLabelsStacksAndTheWholeTime) {
  Pipe pipe;
  OwnSet set;
  set.put({{"waits", "since before"}}, 1);
  std::atomic<std::uint64_t> pattern_at{0};
  Worker worker([&](const std::stop_token&) {
    ::pthread_setname_np(::pthread_self(), "waiter");
    slots.v1 = address_of(set.block);
    volatile std::uint64_t pattern[64];
    for (std::uint64_t i = 0; i < 64; ++i) pattern[i] = 0x1234567800000000U + i;
    pattern_at = address_of(const_cast<std::uint64_t*>(pattern));
    pipe.wait();
    slots = {};
  });
  until_it_waits(::getpid(), worker.tid(), read_call);
  Window window(off_cpu());
  EXPECT_FALSE(window.own.profiler->blind_to_waiting());
  std::this_thread::sleep_for(50ms);
  window.end();
  pipe.wake();
  worker.stop();
  const auto waits = window.own.of(worker.tid(), VITRINE_SAMPLE_OFF_CPU);
  ASSERT_EQ(waits.size(), 1u);
  const Kept& sample = waits.front();
  EXPECT_EQ(sample.head.event.flags, VITRINE_SAMPLE_UNFINISHED);
  EXPECT_STREQ(sample.head.event.comm, "waiter");
  EXPECT_EQ(sample.head.event.pid, ::getpid());
  EXPECT_GE(sample.head.off_ns, window.least());
  EXPECT_LE(sample.head.off_ns, window.most());
  EXPECT_THAT(sample.v1_labels, ElementsAre(std::pair("waits", "since before")));
  std::vector<std::string> kernel;
  for (const std::uint64_t address : sample.kernel_stack)
    kernel.push_back(kernel_function(address));
  EXPECT_THAT(kernel, Contains(testing::HasSubstr("pipe_read")));
  ASSERT_EQ(sample.registers.size(), 21u);
  EXPECT_EQ(sample.stack_start, sample.registers[sp_word] & ~7ULL);
  ASSERT_GE(pattern_at, sample.stack_start);
  std::uint64_t pattern[64] = {};
  ASSERT_GE(sample.stack.size(), pattern_at - sample.stack_start + sizeof pattern);
  std::memcpy(pattern, sample.stack.data() + (pattern_at - sample.stack_start), sizeof pattern);
  for (std::uint64_t i = 0; i < 64; ++i) EXPECT_EQ(pattern[i], 0x1234567800000000U + i);
}

TEST(WaitingThreads, AreSeenByTheThousand) {
  constexpr std::size_t threads = 1000;
  std::mutex mutex;
  std::unique_lock held(mutex);
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::size_t i = 0; i < threads; ++i)
    workers.push_back(std::make_unique<Worker>(
        [&](const std::stop_token&) { const std::lock_guard lock(mutex); }));
  for (const auto& worker : workers) until_it_waits(::getpid(), worker->tid(), futex_call);
  Window window(off_cpu());
  window.end();
  held.unlock();
  std::map<pid_t, std::vector<Kept>> by_thread;
  for (const Kept& sample : window.own.samples) by_thread[sample.head.event.tid].push_back(sample);
  for (const auto& worker : workers) {
    const auto& waits = by_thread[worker->tid()];
    ASSERT_EQ(waits.size(), 1u);
    EXPECT_TRUE(waits.front().has(VITRINE_SAMPLE_UNFINISHED));
    EXPECT_GE(waits.front().head.off_ns, window.least());
    EXPECT_LE(waits.front().head.off_ns, window.most());
    EXPECT_FALSE(waits.front().stack.empty());
  }
  for (const auto& worker : workers) worker->stop();
  EXPECT_EQ(window.own.profiler->counters().lost, 0u);
  EXPECT_EQ(window.own.profiler->counters().samples, window.own.samples.size());
}

std::uint64_t cpu_time_ns(pthread_t thread) {
  clockid_t clock{};
  timespec used{};
  EXPECT_EQ(::pthread_getcpuclockid(thread, &clock), 0);
  EXPECT_EQ(::clock_gettime(clock, &used), 0);
  return static_cast<std::uint64_t>(used.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(used.tv_nsec);
}

TEST(WaitingThreads, ThatWakeMeanwhileAreCountedOnce) {
  constexpr std::uint64_t clocks_differ_ns = 1'000'000;
  Pipe pipe, woken;
  std::atomic<pthread_t> thread{};
  Worker worker([&](const std::stop_token&) {
    thread = ::pthread_self();
    pipe.wait();
    woken.wake();
    pipe.wait();
  });
  until_it_waits(::getpid(), worker.tid(), read_call);
  const std::uint64_t used_before = cpu_time_ns(thread);
  ProfilerOptions options = off_cpu();
  options.preempted = true;  // then it is on its CPU, or in a sample
  Window window(options);
  std::this_thread::sleep_for(20ms);
  pipe.wake();
  woken.wait();
  until_it_waits(::getpid(), worker.tid(), read_call);
  std::this_thread::sleep_for(20ms);
  window.end();
  const std::uint64_t used = cpu_time_ns(thread) - used_before;
  pipe.wake();
  worker.stop();
  const auto waits = window.own.of(worker.tid(), VITRINE_SAMPLE_OFF_CPU);
  ASSERT_GE(waits.size(), 2u);
  EXPECT_FALSE(waits.front().has(VITRINE_SAMPLE_UNFINISHED));
  EXPECT_GE(waits.front().head.off_ns, 20'000'000u);
  EXPECT_TRUE(waits.back().has(VITRINE_SAMPLE_UNFINISHED));
  EXPECT_LE(off_ns(waits), window.most());
  EXPECT_GE(off_ns(waits) + used + clocks_differ_ns, window.least());
}

TEST(WaitingThreads, ArePassedOverWhenTheProfileIsShorterThanAsked) {
  Pipe pipe;
  Worker worker([&](const std::stop_token&) { pipe.wait(); });
  until_it_waits(::getpid(), worker.tid(), read_call);
  ProfilerOptions options = off_cpu();
  options.min_block = 1h;
  Window window(options);
  window.end();
  pipe.wake();
  worker.stop();
  EXPECT_THAT(window.own.samples, IsEmpty());
  EXPECT_GE(window.own.profiler->counters().short_blocks, 1u);
}

TEST(WaitingThreads, AreOfTheProcessesAskedFor) {
  const ChildProcess child([] {
    ::prctl(PR_SET_NAME, "child waits");
    ::pause();
  });
  until_it_waits(child.pid(), child.pid(), pause_call);
  struct Case {
    bool every_process, follow;
  };
  for (const Case& one : {Case{false, false}, Case{false, true}, Case{true, false}}) {
    ProfilerOptions options = off_cpu();
    options.every_process = one.every_process;
    options.follow = one.follow;
    Window window(options);
    window.end();
    const auto waits = window.own.of(child.pid(), VITRINE_SAMPLE_OFF_CPU);
    if (!one.every_process && !one.follow) {
      EXPECT_THAT(waits, IsEmpty());
      continue;
    }
    ASSERT_EQ(waits.size(), 1u);
    EXPECT_STREQ(waits.front().head.event.comm, "child waits");
    EXPECT_GE(waits.front().head.off_ns, window.least());
    EXPECT_FALSE(waits.front().stack.empty());
  }
}

TEST(WaitingThreads, AreInOneProfileAfterAnother) {
  Pipe pipe;
  OwnSet set;
  set.put({{"waits", "on"}}, 1);
  Worker worker([&](const std::stop_token&) {
    slots.v1 = address_of(set.block);
    pipe.wait();
    slots = {};
  });
  until_it_waits(::getpid(), worker.tid(), read_call);
  ProfilerOptions options = off_cpu();
  options.min_block = 1ms;
  Window window(options);
  std::vector<std::uint64_t> cuts;
  for (int i = 0; i < 2; ++i) {
    std::this_thread::sleep_for(5ms);
    cuts.push_back(now_ns());
    ASSERT_TRUE(window.own.profiler->cut(cuts.back()));
  }
  ASSERT_TRUE(window.own.profiler->cut(cuts.back() + 1)) << "shorter than asked: not cut";
  std::this_thread::sleep_for(5ms);
  window.end();
  pipe.wake();
  worker.stop();
  const auto waits = window.own.of(worker.tid(), VITRINE_SAMPLE_OFF_CPU);
  ASSERT_EQ(waits.size(), 3u);
  EXPECT_EQ(waits[1].head.off_ns, cuts[1] - cuts[0]);
  EXPECT_GE(off_ns(waits), window.least());
  EXPECT_LE(off_ns(waits), window.most());
  for (const Kept& sample : waits) {
    EXPECT_TRUE(sample.has(VITRINE_SAMPLE_UNFINISHED));
    EXPECT_THAT(sample.v1_labels, ElementsAre(std::pair("waits", "on")));
    EXPECT_EQ(sample.stack, waits.front().stack);
  }
}

TEST(WaitingThreads, AreNotCountedTwiceWhenProfilesEndWhileTheySwitch) {
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < 4; ++i)
    workers.push_back(std::make_unique<Worker>([](const std::stop_token& stop) {
      while (!stop.stop_requested()) std::this_thread::sleep_for(1us);
    }));
  Window window(off_cpu());
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(window.own.profiler->cut(now_ns()));
    window.own.take();
  }
  window.end();
  for (const auto& worker : workers) {
    EXPECT_GT(window.own.of(worker->tid(), VITRINE_SAMPLE_OFF_CPU).size(), 1u);
    EXPECT_LE(off_ns(window.own.of(worker->tid(), VITRINE_SAMPLE_OFF_CPU)), window.most());
  }
  const ProfilerCounters counters = window.own.profiler->counters();
  EXPECT_EQ(counters.samples, window.own.samples.size() + counters.lost);
  for (const auto& worker : workers) worker->stop();
}

TEST(WaitingThreads, AndAllOthersAreAccountedForWhenSwitchesAreUnderWayAtTheEnd) {
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < 4; ++i)
    workers.push_back(std::make_unique<Worker>([](const std::stop_token& stop) {
      while (!stop.stop_requested()) std::this_thread::sleep_for(1us);
    }));
  for (int round = 0; round < 5; ++round) {
    OwnProfiler own(off_cpu());
    own.finish();
    const ProfilerCounters counters = own.profiler->counters();
    EXPECT_EQ(counters.samples, own.samples.size() + counters.lost);
    // Each is on a CPU, or its last sample tells that it is not; nobody is told of twice.
    std::map<pid_t, std::size_t> unfinished;
    for (const Kept& sample : own.samples)
      unfinished[sample.head.event.tid] += sample.has(VITRINE_SAMPLE_UNFINISHED) ? 1 : 0;
    for (const auto& [tid, times] : unfinished) EXPECT_LE(times, 1u) << tid;
  }
  for (const auto& worker : workers) worker->stop();
}

}  // namespace
}  // namespace vitrine::bpf
