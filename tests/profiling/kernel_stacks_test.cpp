// Stacks that the kernel unwinds: the same as those of copies, each counted, and whole where a copy
// ends.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "profiling/profiled.hpp"
#include "support/child.hpp"

namespace vitrine {
namespace {

using namespace std::chrono_literals;
using observe::Unwind;
using profile::Sample;
using profile::StackEnd;
using test::Profiled;

test::Child started(std::vector<std::string> command) {
  test::ChildOptions options;
  options.env = {"ONE_STACK=1"};
  test::Child child = test::Child::spawn(std::move(command), options);
  EXPECT_EQ(child.read_line(), "ready");
  return child;
}

std::uint64_t copies(const observe::UnwindCounts& counts) {
  std::uint64_t sum = 0;
  for (const auto& [reason, samples] : counts.from_copies) sum += samples;
  return sum;
}

std::uint64_t copied_for(const Profiled& what, std::string_view reason) {
  for (const auto& [its, samples] : what.unwinding.from_copies)
    if (its == reason) return samples;
  return 0;
}

Profiled profiled(const test::Child& program, bool verify) {
  observe::ProfilingOptions options;
  options.pids = {program.pid()};
  options.frequency = 999;
  options.unwind = Unwind::kernel;
  options.verify_unwind = verify;
  Profiled what = test::profile_while(options, [] { std::this_thread::sleep_for(1s); });
  const auto& counts = what.unwinding;
  for (const std::string& note : what.notes) fmt::print("{}\n", note);
  // What was fired has come in, or is counted as lost; what has come in is counted once.
  EXPECT_EQ(what.profile.losses.events, 0U);
  EXPECT_EQ(counts.in_kernel + copies(counts) + counts.without_user_code,
            what.profile.samples.size());
  return what;
}

/// All that both unwound agree, and hardly any sample needs its copy.
void expect_agreement(const test::Child& program) {
  const Profiled what = profiled(program, true);
  const auto& counts = what.unwinding;
  ASSERT_GT(what.profile.samples.size(), 100U);
  EXPECT_EQ(counts.compared, counts.in_kernel);
  EXPECT_GE(counts.agreed * 1000, counts.compared * 995);
  EXPECT_GT(counts.in_kernel * 3, what.profile.samples.size() * 2);
}

class OfPrograms : public testing::TestWithParam<const char*> {};

TEST_P(OfPrograms, AgreeWithTheirCopies) {
  expect_agreement(started({std::string(SUBJECT_DIR "/") + GetParam(), "3"}));
}

INSTANTIATE_TEST_SUITE_P(OfEveryKind, OfPrograms,
                         testing::Values("gcc", "gcc-no-pie", "gcc-static-pie",
                                         "gcc-frame-pointers", "clang", "clang-lld"),
                         [](const auto& row) {
                           std::string name = row.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class OfFrames : public testing::TestWithParam<const char*> {};

TEST_P(OfFrames, AgreeWithTheirCopies) {
  expect_agreement(started({FRAMES, GetParam()}));
}

INSTANTIATE_TEST_SUITE_P(Kinds, OfFrames, testing::Values("alloca", "signals", "altstack", "big"),
                         [](const auto& row) { return row.param; });

TEST(KernelStacks, OfCPythonsTrampolinesAgree) {
  expect_agreement(started({TRAMPOLINES}));
}

TEST(KernelStacks, OfAnInterpreterAgree) {
  expect_agreement(started({"python3", "-c",
                            "print('ready', flush=True)\n"
                            "def f(n): return sorted(str(i) for i in range(n))\n"
                            "while True: f(500)"}));
}

#if defined(__x86_64__)
TEST(KernelStacks, OfInterruptedSystemCallsAreTheOnesBefore) {
  const test::Child program = started({"python3", "-c",
                                       "import os\n"
                                       "print('ready', flush=True)\n"
                                       "while True:\n"
                                       "  os.stat('/etc/passwd')\n"
                                       "  open('/proc/self/status').read()\n"});
  observe::ProfilingOptions options;
  options.pids = {program.pid()};
  options.frequency = 4999;
  options.unwind = Unwind::kernel;
  options.verify_unwind = true;
  const Profiled what = test::profile_while(options, [] { std::this_thread::sleep_for(2s); });
  for (const std::string& note : what.notes) fmt::print("{}\n", note);
  EXPECT_EQ(what.profile.losses.events, 0U);
  EXPECT_GT(what.unwinding.kernel_known, 10U);
  EXPECT_EQ(what.unwinding.kernel_wrong, 0U);
}
#endif

TEST(KernelStacks, AreOfTheProgramThatIsExecuted) {
  expect_agreement(started({"sh", "-c", "echo ready; exec " FRAMES " alloca"}));
}

TEST(KernelStacks, WithoutRulesComeFromCopiesAndAreCounted) {
  const Profiled what = profiled(started({SUBJECT_DIR "/musl-dynamic"}), false);
  EXPECT_GT(copied_for(what, "no rule for the kernel"), what.profile.samples.size() / 4);
}

std::size_t whole(const Profiled& what, std::string_view function) {
  return static_cast<std::size_t>(
      std::ranges::count_if(what.profile.samples, [&](const Sample& sample) {
        const auto names = test::functions_of(what.profile, sample);
        return std::ranges::count(names, function) != 0 &&
               test::reaches_the_start(what.profile, sample) &&
               what.profile.stacks.at(sample.stack).end == StackEnd::outermost;
      }));
}

TEST(KernelStacks, GoOnBelowAHandlersOwnStack) {
  EXPECT_GT(whole(profiled(started({FRAMES, "altstack"}), false), "on_signal"), 50U);
}

TEST(KernelStacks, GoOnBeyondWhatCanBeCopied) {
  const Profiled what = profiled(started({FRAMES, "big"}), false);
  EXPECT_GT(whole(what, "big_frame") * 10, what.profile.samples.size() * 6);
}

TEST(KernelStacks, ThatAreDeepHaveTheirRootAndTheirLeaf) {
  const auto program = started({FRAMES, "deep"});
  for (const std::size_t depth : {512U, 1024U}) {
    observe::ProfilingOptions options;
    options.pids = {program.pid()};
    options.frequency = 499;
    options.stack_depth = depth;
    const Profiled what = test::profile_while(options, [] { std::this_thread::sleep_for(1s); });
    const auto& samples = what.profile.samples;
    const auto deep = std::ranges::count_if(samples, [&](const Sample& sample) {
      const profile::Stack& stack = what.profile.stacks.at(sample.stack);
      const auto names = test::functions_of(what.profile, sample);
      return stack.end == StackEnd::depth && stack.locations.size() >= depth + 1 &&
             std::ranges::count(names, profile::omitted_frames) == 1 &&
             static_cast<std::size_t>(std::ranges::count(names, "deep")) >= depth - 16 &&
             test::reaches_the_start(what.profile, sample);
    });
    fmt::print("{} of {} samples are deep\n", deep, samples.size());
    EXPECT_GT(static_cast<std::size_t>(deep), samples.size() / 4) << depth;
  }
}

TEST(KernelStacks, AreTheDefault) {
  const auto program = started({FRAMES, "alloca"});
  observe::ProfilingOptions options;
  options.pids = {program.pid()};
  options.frequency = 499;
  const Profiled what = test::profile_while(options, [] { std::this_thread::sleep_for(600ms); });
  EXPECT_GT(what.unwinding.in_kernel, copies(what.unwinding));
  for (const std::string& note : what.notes)
    EXPECT_THAT(note, testing::Not(testing::HasSubstr("from copies")));
}

TEST(KernelStacks, AreReportedIfCopiesAreOften) {
  const auto program = started({SUBJECT_DIR "/musl-dynamic"});
  observe::ProfilingOptions options;
  options.pids = {program.pid()};
  options.frequency = 499;
  const Profiled what = test::profile_while(options, [] { std::this_thread::sleep_for(600ms); });
  EXPECT_THAT(what.notes, testing::Contains(testing::HasSubstr("no rule for the kernel: ")));
}

TEST(KernelStacks, AreNotAskedForWithCopies) {
  const auto program = started({FRAMES, "alloca"});
  observe::ProfilingOptions options;
  options.pids = {program.pid()};
  options.frequency = 499;
  options.unwind = Unwind::copy;
  const Profiled what = test::profile_while(options, [] { std::this_thread::sleep_for(300ms); });
  EXPECT_EQ(what.unwinding.in_kernel, 0U);
  EXPECT_EQ(copied_for(what, "no unwinding in the kernel") + what.unwinding.without_user_code,
            what.profile.samples.size());
}

}  // namespace
}  // namespace vitrine
