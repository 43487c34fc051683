// The profiler is killed at any moment: the profiled goes on as if nobody had looked, and nothing of
// the profiler is left, in the kernel or as a process.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

#include "observe/bpf_objects.hpp"
#include "observe/observe_subject.hpp"

namespace vitrine {
namespace {

using namespace std::chrono_literals;
using test::ask;
using test::Child;
using test::expect_counting_on;
using test::expect_unharmed;
using test::start_subject;

/// In the environment of the profilers of this test, and of all that they start.
std::string mark() {
  return fmt::format("VITRINE_KILLED_TEST={}", ::getpid());
}

Child start_profiler(pid_t target, const std::string& output) {
  test::ChildOptions options;
  options.env = {mark()};
  return Child::spawn({VITRINE, "profile", std::to_string(target), "--on-cpu", "--off-cpu",
                       "--freq", "999", "--duration", "60s", "-o", output},
                      std::move(options));
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Processes with the mark that do not end by themselves within some seconds.
std::vector<std::string> processes_left() {
  std::vector<std::string> left;
  for (int attempt = 0; attempt < 100; ++attempt) {
    left.clear();
    std::error_code gone;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string pid = entry.path().filename();
      if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
      if (contents(entry.path() / "environ").find(mark()) != std::string::npos)
        left.push_back(pid + " " + contents(entry.path() / "comm"));
    }
    if (left.empty()) break;
    std::this_thread::sleep_for(50ms);
  }
  return left;
}

/// What the threads of a subject count in a second of CPU time.
class Speed {
 public:
  explicit Speed(Child& subject) : subject_(subject) { now(); }

  /// Since the last call.
  double now() {
    clockid_t clock{};
    timespec used{};
    if (clock_getcpuclockid(subject_.pid(), &clock) != 0 || clock_gettime(clock, &used) != 0)
      ADD_FAILURE() << "no clock";
    const auto counts = ask(subject_);
    const double count = std::accumulate(counts.begin(), counts.end(), 0.0);
    const double time = static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
    const double speed = (count - count_) / (time - time_);
    count_ = count;
    time_ = time;
    return speed;
  }

 private:
  Child& subject_;
  double count_ = 0, time_ = 0;
};

/// How fast a subject is against another that nobody ever profiled, both at once: who else uses the
/// machine slows both down. The median of some attempts.
double speed_against(Child& subject, Child& witness) {
  std::vector<double> ratios;
  Speed of_subject(subject), of_witness(witness);
  for (int attempt = 0; attempt < 9; ++attempt) {
    std::this_thread::sleep_for(200ms);
    ratios.push_back(of_subject.now() / of_witness.now());
  }
  std::sort(ratios.begin(), ratios.end());
  return ratios[ratios.size() / 2];
}

class Killed : public testing::Test {
 protected:
  // Some are killed while they load their programs, most while they sample.
  void kill_one_of(const Child& target) {
    Child profiler = start_profiler(target.pid(), output);
    std::this_thread::sleep_for(std::chrono::microseconds(moment(random)));
    profiler.signal(SIGKILL);
    ASSERT_EQ(profiler.wait(), 128 + SIGKILL);
    expect_unharmed(target.pid());
  }

  void TearDown() override {
    std::filesystem::remove(output);
    EXPECT_THAT(test::left_behind(before), testing::IsEmpty());
    EXPECT_THAT(processes_left(), testing::IsEmpty());
  }

  const std::set<std::string> before = test::bpf_objects();
  const std::string output = testing::TempDir() + fmt::format("killed-{}.html", ::getpid());
  std::minstd_rand random{20261121};
  std::uniform_int_distribution<int> moment{0, 300'000};
};

TEST_F(Killed, LeavesTheProfiledAtFullSpeed) {
  Child target = start_subject("work");
  for (int kill = 0; kill < 100; ++kill) {
    const auto counts = ask(target);
    kill_one_of(target);
    ASSERT_NO_FATAL_FAILURE(expect_counting_on(target, counts));
  }
  fmt::print("profile: killed at 100 points, all threads count on\n");
  Child witness = start_subject("work");
  const double ratio = speed_against(target, witness);
  fmt::print("{:.2f} of the speed of one that was never profiled\n", ratio);
  // What a machine does to two programs at once may be a tenth; a breakpoint or a single step that
  // was left would be many times this.
  EXPECT_GT(ratio, 0.5);
}

TEST_F(Killed, LosesNoSignal) {
  Child target = start_subject("signals");
  long sent = 0;
  std::atomic<bool> done{false};
  std::thread sender([&] {
    // Queued one by one: a real-time signal is never merged with another.
    for (; !done; ++sent) {
      while (::sigqueue(target.pid(), SIGRTMIN, sigval{}) != 0) std::this_thread::sleep_for(1ms);
      if (sent % 10 == 0) std::this_thread::sleep_for(1ms);
    }
  });
  for (int kill = 0; kill < 10; ++kill) kill_one_of(target);
  done = true;
  sender.join();
  std::vector<long> seen;
  for (int attempt = 0; attempt < 200; ++attempt) {
    seen = ask(target);
    ASSERT_EQ(seen.size(), 3U);
    if (seen[0] == sent) break;
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_EQ(seen, (std::vector<long>{sent, 0, 0})) << "signals; calls that they ended";
}

TEST_F(Killed, ByItsOwnStopItLeavesAsLittle) {
  Child target = start_subject("work");
  Child profiler = start_profiler(target.pid(), output);
  std::this_thread::sleep_for(500ms);
  profiler.signal(SIGINT);
  EXPECT_EQ(profiler.wait(), 128 + SIGINT) << profiler.rest_of_errors();
  EXPECT_GT(std::filesystem::file_size(output), 1000U) << "what was sampled is written";
  expect_unharmed(target.pid());
}

}  // namespace
}  // namespace vitrine
