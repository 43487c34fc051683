// The observing library in a host program that has signals, forks and threads of its own.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vitrine/sdt.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <vitrine/labels.hpp>
#include <vitrine/observe/context.hpp>
#include <vitrine/observe/helpers.hpp>
#include <vitrine/observe/labels.hpp>
#include <vitrine/observe/probes.hpp>
#include <vitrine/observe/profile.hpp>
#include <vitrine/observe/trace.hpp>

#include "support/own_children.hpp"

namespace {

using namespace std::chrono_literals;
using vitrine::test::children;
using vitrine::test::children_at_once;
namespace observer = vitrine::observer;

__attribute__((noinline)) void fire(int number) {
  VITRINE_PROBE(embedding, fired, number);
}

/// Labels to be read: without any, a process publishes none.
const vitrine::labels::Scope published{{{vitrine::labels::Key{"tenant"}, "acme"}}};

observer::TraceOptions trace_of(pid_t pid) {
  observer::TraceOptions options;
  options.pids = {pid};
  options.probes = {"embedding:fired"};
  return options;
}

observer::ProfileOptions profile_of(pid_t pid) {
  observer::ProfileOptions options;
  options.pids = {pid};
  options.off_cpu = true;
  options.frequency = 199;
  return options;
}

/// SIGALRM every millisecond, as many a profiler or a scheduler of user threads has one.
class TimerSignal {
 public:
  TimerSignal() {
    struct sigaction action {};
    action.sa_handler = [](int) { ++signals; };
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGALRM, &action, &before_);
    const itimerval every{{0, 1000}, {0, 1000}};
    ::setitimer(ITIMER_REAL, &every, nullptr);
  }
  ~TimerSignal() {
    const itimerval never{};
    ::setitimer(ITIMER_REAL, &never, nullptr);
    ::sigaction(SIGALRM, &before_, nullptr);
  }
  TimerSignal(const TimerSignal&) = delete;
  TimerSignal& operator=(const TimerSignal&) = delete;

  static inline std::atomic<int> signals{0};

 private:
  struct sigaction before_ {};
};

TEST(Embedding, AHostWithATimerSignalOpensAProfilerAndATrace) {
  const TimerSignal timer;
  const auto profiler = observer::Profiler::open(profile_of(getpid()));
  EXPECT_TRUE(profiler) << profiler.error().message;
  const auto trace = observer::Trace::open(trace_of(getpid()));
  EXPECT_TRUE(trace) << trace.error().message;
  fire(1);
  // Its mask is as before.
  for (const int before = TimerSignal::signals; TimerSignal::signals == before;)
    std::this_thread::sleep_for(1ms);
}

/// The exit status of a forked child that does this; -1: a signal ended it (SIGALRM: it hung).
int status_of_child(const std::function<int()>& life) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::_exit(life());
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Requests for two files, one of which has probes, that get the result of the other.
int wrong_results(bool has_probes, int requests) {
  int wrong = 0;
  for (int i = 0; i < requests; ++i) {
    const auto found = observer::probes_of_file(has_probes ? "/proc/self/exe" : "/bin/true");
    if (!found || found->probes.empty() == has_probes) ++wrong;
  }
  return wrong;
}

TEST(Embedding, AForkHasHelpersOfItsOwn) {
  ASSERT_EQ(wrong_results(true, 1), 0);
  ASSERT_EQ(wrong_results(false, 1), 0);
  constexpr int requests = 300;
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    const int wrong = wrong_results(false, requests);
    ::_exit(wrong == 0 && observer::read_labels(::getppid()) ? 0 : 1);
  }
  EXPECT_EQ(wrong_results(true, requests), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(wrong_results(true, 1), 0);  // the child has ended none of the parent's
}

/// A process that works, for others to observe.
class Busy {
 public:
  Busy() : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (std::atomic<unsigned> n = 0;; ++n)
      if (n % (1U << 20) == 0) fire(1);
  }
  ~Busy() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

/// Whether samples still come: there is no end of this, where they do not, but that of the test.
bool has_samples(observer::Profiler& profiler) {
  static_cast<void>(profiler.take());
  for (int i = 0; i < 100; ++i) {
    if (!profiler.poll(100ms)) return false;
    const auto profile = profiler.take();
    for (std::size_t n = 0; n < profile.size(); ++n)
      if (profile.sample(n).measure == observer::Sample::Measure::on_cpu) return true;
  }
  return false;
}

TEST(Embedding, AForkThatDestroysItsProfilerChangesNothingForTheParent) {
  const Busy busy;
  for (const bool off_cpu : {false, true}) {
    auto options = profile_of(busy.pid());
    options.off_cpu = off_cpu;
    auto opened = observer::Profiler::open(options);
    ASSERT_TRUE(opened) << opened.error().message;
    const auto profiler = std::make_unique<observer::Profiler>(std::move(*opened));
    for (int round = 0; round < 2;
         ++round) {  // before threads of the library are there, and with them
      EXPECT_EQ(status_of_child([&] {
                  delete profiler.get();
                  return 0;
                }),
                0);
      EXPECT_TRUE(has_samples(*profiler));
    }
  }
}

/// Memory of many sizes, which takes the place of what is not mapped in a fork.
class Memory {
 public:
  Memory() {
    for (std::size_t size = 4096; size <= (4U << 20); size += size / 2 / 4096 * 4096 + 4096)
      for (int i = 0; i < 8; ++i) {
        void* const at =
            ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at != MAP_FAILED) parts_.push_back({static_cast<volatile char*>(at), size});
      }
  }
  /// A signal ends the process where it is not.
  void touch() {
    for (const auto& [at, size] : parts_)
      for (std::size_t i = 0; i < size; i += 4096) at[i] = 1;
  }

 private:
  std::vector<std::pair<volatile char*, std::size_t>> parts_;
};

TEST(Embedding, AForkThatDestroysItsProfilerKeepsItsMemory) {
  const Busy busy;
  auto opened = observer::Profiler::open(profile_of(busy.pid()));
  ASSERT_TRUE(opened) << opened.error().message;
  const auto profiler = std::make_unique<observer::Profiler>(std::move(*opened));
  EXPECT_EQ(status_of_child([&] {
              Memory own;
              delete profiler.get();
              own.touch();
              return 0;
            }),
            0);
}

TEST(Embedding, AForkThatDestroysItsTraceChangesNothingForTheParent) {
  const Busy busy;
  auto opened = observer::Trace::open(trace_of(busy.pid()));
  ASSERT_TRUE(opened) << opened.error().message;
  const auto trace = std::make_unique<observer::Trace>(std::move(*opened));
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(status_of_child([&] {
                delete trace.get();
                return 0;
              }),
              0);
    std::size_t fires = 0;
    for (int i = 0; i < 100 && fires == 0; ++i)
      ASSERT_TRUE(trace->poll(100ms, [&](const observer::TraceEvent&) { ++fires; }));
    EXPECT_GT(fires, 0U);
  }
}

TEST(Embedding, ManyThreadsHaveFiveHelpersTogether) {
  constexpr int users = 8;
  constexpr std::size_t most = 5;
  std::atomic<int> done{0}, failed{0};
  std::atomic<bool> over{false};
  std::vector<std::jthread> threads;
  for (int i = 0; i < users; ++i)
    threads.emplace_back([&] {
      for (int n = 0; n < 3; ++n) {
        if (!observer::read_labels(getpid())) ++failed;
        if (!observer::probes_of_process(getpid())) ++failed;
      }
      ++done;
      while (!over) std::this_thread::sleep_for(1ms);  // its helpers live as long as it does
    });
  std::size_t seen = 0;
  while (done < users) {
    seen = std::max(seen, children_at_once().size());
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_LE(seen, most);
  EXPECT_GE(seen, 2U);  // else nothing has been seen
  EXPECT_LE(children().size(), most);
  EXPECT_TRUE(observer::read_labels(getpid()));
  EXPECT_TRUE(observer::probes_of_process(getpid()));
  EXPECT_LE(children().size(), most);
  over = true;
  EXPECT_EQ(failed, 0);
}

/// A thread that has used the library and lives on does not keep what others could use.
TEST(Embedding, ThreadsThatAreIdleKeepNoHelperFromOthers) {
  std::atomic<bool> over{false};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    std::atomic<bool> done{false};
    threads.emplace_back([&over, is_done = &done] {
      EXPECT_TRUE(observer::read_labels(getpid()));
      static_cast<void>(observer::read_context(getpid()));  // there is none
      EXPECT_TRUE(observer::probes_of_process(getpid()));
      *is_done = true;
      while (!over) std::this_thread::sleep_for(1ms);
    });
    while (!done) std::this_thread::sleep_for(1ms);
  }
  observer::end_helpers();  // those that no thread uses
  EXPECT_TRUE(children().empty());
  over = true;
}

TEST(Embedding, APlugInThatUsesTheLibraryCanBeUnloaded) {
  EXPECT_EQ(status_of_child([] {
              ::execl(PLUGIN_HOST, PLUGIN_HOST, PLUGIN, nullptr);
              return 127;
            }),
            0);
}

TEST(Embedding, WhatIsOpenedWithStopSetIsInterrupted) {
  std::atomic<bool> stop{true};
  auto profile = profile_of(getpid());
  profile.stop = &stop;
  const auto profiler = observer::Profiler::open(profile);
  ASSERT_FALSE(profiler);
  EXPECT_EQ(profiler.error().code, observer::ErrorCode::interrupted);
  auto traced = trace_of(getpid());
  traced.stop = &stop;
  const auto trace = observer::Trace::open(traced);
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().code, observer::ErrorCode::interrupted);
  observer::LabelOptions labels;
  labels.stop = &stop;
  const auto reader = observer::LabelReader::open(getpid(), labels);
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().code, observer::ErrorCode::interrupted);
  // A command is not started.
  profile.pids.clear();
  profile.command = {"/bin/sh", "-c", "exit 0"};
  EXPECT_EQ(observer::Profiler::open(profile).error().code, observer::ErrorCode::interrupted);
}

TEST(Embedding, HelpersEndWhereTheHostWantsItAndAreStartedAgain) {
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(observer::read_labels(getpid()));
    EXPECT_TRUE(observer::probes_of_process(getpid()));
    EXPECT_FALSE(children().empty());
    observer::end_helpers();
    EXPECT_TRUE(children().empty());  // zombies would count, too
  }
}

}  // namespace
