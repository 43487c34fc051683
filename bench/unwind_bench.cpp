// Unwinding: ours beside libdwfl, on the same stacks of a live program: -O2, no frame pointers, deep
// recursion, frames of every kind (tests/unwind/subject.cpp).
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <random>
#include <thread>

#include "base/limits.hpp"
#include "observe/profile/program.hpp"
#include "sandbox/file_opener.hpp"
#include "support/child.hpp"
#include "unwind/sampled_stacks.hpp"
#include "unwind/unwinder.hpp"

using namespace vitrine;

namespace {

constexpr std::size_t samples = 400;
constexpr int rounds = 15;

pid_t subject = 0;

/// Of processor time: others may want the machine, too. With that of the worker that parses CFI.
double nanoseconds_of(auto&& work) {
  const auto now = [] {
    const auto used = [](clockid_t clock) {
      timespec time{};
      clock_gettime(clock, &time);
      return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
    };
    double sum = used(CLOCK_PROCESS_CPUTIME_ID);
    std::ifstream children(fmt::format("/proc/self/task/{}/children", ::gettid()));
    clockid_t clock{};
    for (pid_t pid = 0; children >> pid;)
      if (pid != subject && clock_getcpuclockid(pid, &clock) == 0) sum += used(clock);
    return sum;
  };
  const double start = now();
  work();
  return now() - start;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main() {
  // As Profiling does: what forks the worker has none of the stacks in memory then.
  static_cast<void>(sandbox::FileOpener::of_this_process().start());
  auto child = test::Child::spawn({SUBJECT, "2", SUBJECT_LIBRARY});
  if (child.read_line() != "ready") return 1;
  subject = child.pid();
  const auto tids = test::threads_of(child.pid());
  std::mt19937 random(1);
  std::vector<test::SampledStack> stacks;
  while (stacks.size() < samples) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    if (auto sample = test::sample_thread(tids[random() % tids.size()], limits::stack_copy))
      stacks.push_back(std::move(*sample));
  }
  const int proc = ::open(fmt::format("/proc/{}", child.pid()).c_str(), O_PATH | O_DIRECTORY);

  std::vector<unwind::Frame> frames;
  std::size_t ours_frames = 0, dwfl_frames = 0;
  const auto all_ours = [&](unwind::Unwinder& unwinder) {
    ours_frames = 0;
    for (const auto& stack : stacks) {
      unwinder.unwind(stack.registers, stack.stack(), frames);
      ours_frames += frames.size();
    }
  };
  const auto all_dwfl = [&](test::DwflUnwinder& dwfl) {
    dwfl_frames = 0;
    for (const auto& stack : stacks) {
      dwfl.unwind(stack, frames);
      dwfl_frames += frames.size();
    }
  };

  // A deep stack of plain calls, in the processor's caches: what a frame costs at best.
  const test::SampledStack* deepest = &stacks.front();
  std::size_t depth = 0;
  constexpr int repeats = 200;
  const auto again_ours = [&](unwind::Unwinder& unwinder) {
    for (int n = 0; n < repeats; ++n) unwinder.unwind(deepest->registers, deepest->stack(), frames);
  };
  const auto again_dwfl = [&](test::DwflUnwinder& dwfl) {
    for (int n = 0; n < repeats / 10; ++n) dwfl.unwind(*deepest, frames);
  };

  // By turns, so that what else the machine does hits both.
  std::vector<double> open, cold, warm, hot, dwfl_open, dwfl_cold, dwfl_warm, dwfl_hot;
  for (int round = 0; round < rounds; ++round) {
    observe::CodeReader reader;
    Result<observe::ProcessCode> code = fail(ErrorCode::failed, "not read");
    open.push_back(nanoseconds_of([&] { code = reader.read(proc); }));
    if (!code) return 1;
    unwind::Unwinder unwinder(code->map);
    cold.push_back(nanoseconds_of([&] { all_ours(unwinder); }) / static_cast<double>(ours_frames));
    warm.push_back(nanoseconds_of([&] { all_ours(unwinder); }) / static_cast<double>(ours_frames));

    if (depth == 0)
      for (const auto& stack : stacks)
        if (unwinder.unwind(stack.registers, stack.stack(), frames) == unwind::End::outermost &&
            frames.size() > depth) {
          depth = frames.size();
          deepest = &stack;
        }
    hot.push_back(nanoseconds_of([&] { again_ours(unwinder); }) /
                  static_cast<double>(repeats * depth));

    std::unique_ptr<test::DwflUnwinder> dwfl;
    dwfl_open.push_back(
        nanoseconds_of([&] { dwfl = std::make_unique<test::DwflUnwinder>(child.pid()); }));
    dwfl_cold.push_back(nanoseconds_of([&] { all_dwfl(*dwfl); }) /
                        static_cast<double>(dwfl_frames));
    dwfl_warm.push_back(nanoseconds_of([&] { all_dwfl(*dwfl); }) /
                        static_cast<double>(dwfl_frames));
    dwfl_hot.push_back(nanoseconds_of([&] { again_dwfl(*dwfl); }) /
                       static_cast<double>(repeats / 10 * depth));
  }
  ::close(proc);
  fmt::print("{} stacks, {} frames (libdwfl: {})\n\n", samples, ours_frames, dwfl_frames);
  fmt::print("{:44} {:>12} {:>12}\n", "", "vitrine", "libdwfl");
  fmt::print("{:44} {:>12.0f} {:>12.0f}\n", "opening the process, us", median(open) / 1e3,
             median(dwfl_open) / 1e3);
  fmt::print("{:44} {:>12.1f} {:>12.1f}\n", "all stacks for the first time, ns a frame",
             median(cold), median(dwfl_cold));
  fmt::print("{:44} {:>12.1f} {:>12.1f}\n", "again, ns a frame", median(warm), median(dwfl_warm));
  fmt::print("{:44} {:>12.1f} {:>12.1f}\n",
             fmt::format("one stack of {} frames, ns a frame", depth), median(hot),
             median(dwfl_hot));
}
