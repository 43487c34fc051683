// Stacks of optimised programs without frame pointers, from copies: whole, named, and marked where
// they are cut. (kernel_stacks_test.cpp compares those that the kernel unwinds with them.)
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "profiling/profiled.hpp"
#include "support/child.hpp"

namespace vitrine {
namespace {

using namespace std::chrono_literals;
using profile::Sample;
using profile::StackEnd;
using test::Profiled;

Profiled profiled(const test::Child& program, std::size_t stack_bytes = 16 << 10,
                  std::size_t stack_depth = 512) {
  observe::ProfilingOptions options;
  options.pids = {program.pid()};
  options.frequency = 999;
  options.unwind = observe::Unwind::copy;
  options.stack_bytes = stack_bytes;
  options.stack_depth = stack_depth;
  return test::profile_while(options, [] { std::this_thread::sleep_for(1s); });
}

test::Child started(std::vector<std::string> command) {
  test::ChildOptions options;
  options.env = {"ONE_STACK=1"};  // for handlers, of those below that have a choice
  test::Child child = test::Child::spawn(std::move(command), options);
  EXPECT_EQ(child.read_line(), "ready");
  return child;
}

std::size_t count(const Profiled& what, const std::function<bool(const Sample&)>& holds) {
  return static_cast<std::size_t>(
      std::count_if(what.profile.samples.begin(), what.profile.samples.end(), holds));
}

StackEnd end_of(const Profiled& what, const Sample& sample) {
  return what.profile.stacks.at(sample.stack).end;
}

/// More than 99 % of the samples go back to where the thread began.
void expect_whole(const Profiled& what) {
  const auto& samples = what.profile.samples;
  ASSERT_GT(samples.size(), 100U);
  const auto whole = count(
      what, [&](const Sample& sample) { return test::reaches_the_start(what.profile, sample); });
  fmt::print("{} of {} samples reach the start\n", whole, samples.size());
  EXPECT_GT(static_cast<double>(whole), 0.99 * static_cast<double>(samples.size()));
  if (whole == samples.size()) return;
  const auto one = std::find_if(samples.begin(), samples.end(), [&](const Sample& sample) {
    return !test::reaches_the_start(what.profile, sample);
  });
  fmt::print("one that does not (end {}): {}\n", static_cast<int>(end_of(what, *one)),
             fmt::join(test::functions_of(what.profile, *one), " < "));
}

class Programs : public testing::TestWithParam<const char*> {};

TEST_P(Programs, ReachTheStart) {
  const auto program = started({std::string(SUBJECT_DIR "/") + GetParam(), "3"});
  expect_whole(profiled(program));
}

// What they do is in tests/unwind/subject.cpp: recursion, alloca, realigned frames, exceptions,
// longjmp, handlers, callbacks out of libc and libstdc++, lambdas, std::function.
INSTANTIATE_TEST_SUITE_P(OfEveryKind, Programs,
                         testing::Values("gcc", "gcc-no-pie", "gcc-mold", "gcc-static",
                                         "gcc-static-pie", "clang", "clang-lld"),
                         [](const auto& row) {
                           std::string name = row.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class CFrames : public testing::TestWithParam<const char*> {};

TEST_P(CFrames, ReachTheStart) {
  const auto program = started({FRAMES, GetParam()});
  expect_whole(profiled(program));
}

INSTANTIATE_TEST_SUITE_P(Kinds, CFrames, testing::Values("alloca", "signals", "unused"),
                         [](const auto& row) { return row.param; });

TEST(Frames, BelowAHandlersOwnStackAreMissedAndMarked) {
  const auto program = started({FRAMES, "altstack"});
  const auto what = profiled(program);
  std::size_t in_handler = 0;
  for (const Sample& sample : what.profile.samples) {
    const auto names = test::functions_of(what.profile, sample);
    if (std::find(names.begin(), names.end(), "on_signal") == names.end()) continue;
    ++in_handler;
    // What was interrupted is there, by its registers; its stack is elsewhere.
    EXPECT_THAT(names.back(), testing::AnyOf("spin", "interrupted"));
    EXPECT_EQ(end_of(what, sample), StackEnd::other_stack);
  }
  EXPECT_GT(in_handler, 50U);
}

TEST(Frames, OfAContextEndWhereItBegins) {
  const auto program = started({FRAMES, "context"});
  for (const auto unwind : {observe::Unwind::copy, observe::Unwind::kernel}) {
    observe::ProfilingOptions options;
    options.pids = {program.pid()};
    options.frequency = 999;
    options.unwind = unwind;
    const auto what = test::profile_while(options, [] { std::this_thread::sleep_for(1s); });
    ASSERT_GT(what.profile.samples.size(), 100U);
    const auto whole = count(
        what, [&](const Sample& sample) { return end_of(what, sample) == StackEnd::outermost; });
    EXPECT_EQ(whole, what.profile.samples.size());
    if (unwind == observe::Unwind::copy) continue;
    // The first samples in a page of code come before its rules.
    EXPECT_GT(what.unwinding.in_kernel, whole * 8 / 10);
  }
}

TEST(Frames, BeyondTheCopyAreMissedAndMarked) {
  const auto program = started({FRAMES, "big"});
  const auto what = profiled(program);
  ASSERT_GT(what.profile.samples.size(), 100U);
  const auto cut = count(
      what, [&](const Sample& sample) { return end_of(what, sample) == StackEnd::truncated; });
  EXPECT_GT(cut, what.profile.samples.size() * 9 / 10);
  EXPECT_EQ(what.profile.losses.truncated_stacks, cut);
}

std::size_t longest(const Profiled& what) {
  std::size_t most = 0;
  for (const Sample& sample : what.profile.samples)
    most = std::max(most, what.profile.stacks.at(sample.stack).locations.size());
  return most;
}

TEST(Frames, BeyondTheUsualCopyAreThereWhenMoreIsCopied) {
  const auto program = started({FRAMES, "big"});
  // All of three frames of 24 KiB do not fit into the 64 KiB that can be copied; the leaf and two do.
  const auto what = profiled(program, 60 << 10);
  const auto two = count(what, [&](const Sample& sample) {
    const auto names = test::functions_of(what.profile, sample);
    return std::count(names.begin(), names.end(), "big_frame") >= 2;
  });
  EXPECT_GT(two, what.profile.samples.size() * 9 / 10);
  // And no option has more of them.
  const auto out_of_reach = count(
      what, [&](const Sample& sample) { return end_of(what, sample) == StackEnd::out_of_reach; });
  EXPECT_GT(out_of_reach, what.profile.samples.size() * 9 / 10);
}

TEST(Frames, OfADeepStackAreThoseOfItsRootAndItsLeaf) {
  const auto program = started({FRAMES, "deep"});
  for (const std::size_t depth : {512U, 1024U}) {
    const auto what = profiled(program, 64 << 10, depth);
    ASSERT_GT(what.profile.samples.size(), 100U);
    const auto cut =
        count(what, [&](const Sample& sample) { return end_of(what, sample) == StackEnd::depth; });
    EXPECT_GT(cut, what.profile.samples.size() / 4) << depth;
    EXPECT_EQ(what.profile.losses.truncated_stacks, count(what, [&](const Sample& sample) {
                return end_of(what, sample) != StackEnd::outermost &&
                       end_of(what, sample) != StackEnd::no_rule &&
                       end_of(what, sample) != StackEnd::bad;
              }));
    for (const Sample& sample : what.profile.samples) {
      if (end_of(what, sample) != StackEnd::depth) continue;
      const auto names = test::functions_of(what.profile, sample);
      EXPECT_TRUE(test::reaches_the_start(what.profile, sample));
      EXPECT_EQ(std::count(names.begin(), names.end(), profile::omitted_frames), 1);
    }
    // What the remedy says: more is kept.
    EXPECT_GE(longest(what), depth + 1);
    EXPECT_LT(longest(what), depth + 100);  // functions of the kernel
  }
}

TEST(Frames, OfAThreadThatBeginsAreWhole) {
  const auto program = started({FRAMES, "threads"});
  const auto what = profiled(program);
  ASSERT_GT(what.profile.samples.size(), 100U);
  const auto whole = count(
      what, [&](const Sample& sample) { return end_of(what, sample) == StackEnd::outermost; });
  EXPECT_GE(whole * 100, what.profile.samples.size() * 98);
}

/// musl's libc has no call frame information; and its dynamic linker is known by a pointer, which means
/// nothing before that has relocated itself.
TEST(MuslCommand, HasWholeStacksAndNothingUnread) {
  observe::ProfilingOptions options;
  options.command = {SUBJECT_DIR "/musl-dynamic"};
  options.frequency = 999;
  const auto what = test::profile_while(options, [] { std::this_thread::sleep_for(2s); });
  ASSERT_GT(what.profile.samples.size(), 100U);
  const auto whole = count(
      what, [&](const Sample& sample) { return end_of(what, sample) == StackEnd::outermost; });
  fmt::print("{} of {} stacks are whole\n", whole, what.profile.samples.size());
  EXPECT_GE(whole * 100, what.profile.samples.size() * 99);
  EXPECT_EQ(what.profile.losses.unread_labels, 0U);
}

TEST(Frames, InlinedFunctionsAreFrames) {
  const auto program = started({FRAMES, "inlined"});
  const auto what = profiled(program);
  ASSERT_GT(what.profile.samples.size(), 100U);
  const auto chain = count(what, [&](const Sample& sample) {
    const auto names = test::functions_of(what.profile, sample);
    static const std::vector<std::string> wanted = {"innermost", "middle", "outer", "main"};
    return std::search(names.begin(), names.end(), wanted.begin(), wanted.end()) != names.end();
  });
  EXPECT_GT(chain, what.profile.samples.size() * 95 / 100);
}

}  // namespace
}  // namespace vitrine
