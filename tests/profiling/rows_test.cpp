// Samples that the kernel adds up: the same sums as their records, by label, on CPU and off.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <thread>

#include "profiling/profiled.hpp"
#include "support/child.hpp"

namespace vitrine {
namespace {

using namespace std::chrono_literals;
using profile::Measure;
using profile::Sample;
using test::Profiled;

test::Child started(std::vector<std::string> command) {
  test::Child child = test::Child::spawn(std::move(command));
  child.read_until("ready");
  return child;
}

observe::ProfilingOptions options_of(const test::Child& program) {
  observe::ProfilingOptions options;
  options.pids = {program.pid()};
  options.frequency = 999;
  options.unwind = observe::Unwind::kernel;
  return options;
}

observe::ProfilingOptions options_of_waits(const test::Child& program) {
  observe::ProfilingOptions options = test::options_of_waits(program.pid());
  options.unwind = observe::Unwind::kernel;
  return options;
}

Profiled profiled(const observe::ProfilingOptions& options) {
  Profiled what = test::profile_while(options, [] { std::this_thread::sleep_for(2s); });
  for (const std::string& note : what.notes) fmt::print("{}\n", note);
  EXPECT_EQ(what.profile.losses.events, 0U);
  return what;
}

/// Of each sample that was added up, its record is equal to what it was added to, and each sum is right.
void expect_equal(const Profiled& what, std::uint64_t added_of_100) {
  EXPECT_GT(what.unwinding.added * 100, what.profile.samples.size() * added_of_100);
  EXPECT_GE(what.unwinding.equal * 1000, what.unwinding.added * 995);
  EXPECT_EQ(what.unwinding.miscounted, 0U);
}

TEST(AddedUp, SamplesOfSpansAreEqualToTheirRecords) {
  const auto program = started({TENANT_LOAD, "3"});
  observe::ProfilingOptions options = options_of(program);
  options.verify_unwind = true;
  const Profiled what = profiled(options);
  expect_equal(what, 5);
  fmt::print("labels like those of the sample before: {}, {} of them other ones\n",
             what.unwinding.known_labels, what.unwinding.other_labels);
  EXPECT_GT(what.unwinding.known_labels * 10, what.profile.samples.size());
  EXPECT_EQ(what.unwinding.other_labels, 0U);
}

// Labels that are like those of the thread's last sample name a row only with a stack that was unwound.
TEST(AddedUp, ASampleWhoseStackIsCopiedIsInNoRowOfAnotherThread) {
  const auto program = started({COPIED_STACKS});
  const Profiled what = profiled(options_of(program));
  EXPECT_FALSE(what.unwinding.from_copies.empty());
  std::map<std::string, int> of_thread, with_labels;
  for (const Sample& sample : what.profile.samples) {
    const bool is_copied = sample.thread_name == "copied";
    ++of_thread[sample.thread_name];
    const std::string its = test::label_of(what.profile, sample, "tenant");
    const char* const right = is_copied ? "globex" : "acme";
    EXPECT_TRUE(its.empty() || its == right) << its;
    with_labels[sample.thread_name] += its.empty() ? 0 : 1;
    for (const std::string& function : test::functions_of(what.profile, sample))
      EXPECT_NE(test::bare_name(function), is_copied ? "work_plainly" : "work_by_expression");
  }
  // They share the CPU, so each has about half of it.
  EXPECT_GT(of_thread["copied"], 20);
  EXPECT_GT(of_thread["copied"] * 3, of_thread["plain"]);
  EXPECT_GT(of_thread["plain"] * 3, of_thread["copied"]);
  for (const char* thread : {"plain", "copied"})
    EXPECT_GT(with_labels[thread] * 10, of_thread[thread] * 9) << thread;
}

TEST(AddedUp, LabelSetsThatAreMadeAnewAreEqual) {
  const auto program = started({LABEL_TURNS, "work"});
  observe::ProfilingOptions options = options_of(program);
  options.verify_unwind = true;
  expect_equal(profiled(options), 50);
}

// At the same addresses: by these alone, the mappings of one execution would pass for those of the next.
TEST(AddedUp, SamplesOfAnExecutionAreEqualToItsRecords) {
  const auto program = started({EXECUTES_ITSELF});
  observe::ProfilingOptions options = options_of(program);
  options.verify_unwind = true;
  expect_equal(profiled(options), 0);
}

TEST(AddedUp, WaitsAreEqualToTheirRecords) {
  const auto program = started({LABEL_TURNS, "wait"});
  observe::ProfilingOptions options = options_of_waits(program);
  options.verify_unwind = true;
  expect_equal(profiled(options), 50);
}

TEST(AddedUp, WaitsHaveTheirTimeByLabel) {
  const auto program = started({LABEL_TURNS, "wait"});
  const Profiled what = profiled(options_of_waits(program));
  auto times = test::time_by(what.profile, Measure::off_cpu, "tenant");
  EXPECT_NEAR(times["acme"], times["globex"], times["acme"] / 5);
  // One thread waits at any time.
  EXPECT_LE(times["acme"] + times["globex"], static_cast<double>(what.profile.duration_ns));
  const auto& counts = what.unwinding;
  std::uint64_t all = counts.in_kernel + counts.without_user_code;
  for (const auto& [reason, samples] : counts.from_copies) all += samples;
  EXPECT_EQ(all, what.profile.samples.size());
  for (const Sample& sample : what.profile.samples)
    EXPECT_GE(sample.time_ns, what.profile.start_ns);
}

/// All waits are taken anew, and compared with what those like the ones before would have been.
void expect_like_before(bool kernel_frames) {
  const auto program = started({SIMILAR_LOAD, "wait"});
  observe::ProfilingOptions options = options_of_waits(program);
  options.kernel_frames = kernel_frames;
  options.verify_unwind = true;
  const Profiled what = profiled(options);
  expect_equal(what, 50);
#if defined(__x86_64__)
  EXPECT_GT(what.unwinding.like_before * 10, what.profile.samples.size());
#endif
  EXPECT_EQ(what.unwinding.not_like, 0U);
}

// Each group of waits differs from the one before in one thing alone: a wait that is taken for the one before although
// that has changed is counted here,
TEST(AddedUp, WaitsThatDifferInOneThingAreNotLikeTheOnesBefore) {
  expect_like_before(true);
}

// here (each CPU knows stacks of the kernel by numbers of its own),
TEST(AddedUp, WaitsOnAnotherProcessorAreNotLikeTheOnesBefore) {
  expect_like_before(false);
}

/// What tells the two groups apart that differ in what a function of similar_load names; empty: neither of them.
std::string group_of(const Profiled& what, const Sample& sample, const std::string& kind) {
  const std::string tenant = test::label_of(what.profile, sample, "tenant");
  if (kind == "by_tenant" || kind == "by_label" || kind == "by_variables")
    return "tenant=" + tenant;
  if (kind == "by_name") return sample.thread_name;
  static const std::map<std::string, std::vector<std::string>> places{
      {"by_caller", {"in_one_place", "in_another_place"}},
      {"by_site", {"first_site", "second_site"}},
      {"by_depth", {"in_one_place", "in_another_place"}},
      {"by_call", {"nanosleep", "poll"}},
      {"by_inner", {"unix_stream", "unix_dgram"}}};
  const auto its = places.find(kind);
  if (its == places.end()) return {};
  const auto functions = test::functions_of(what.profile, sample);
  for (const std::string& place : its->second)
    if (std::ranges::any_of(functions,
                            [&](const auto& name) { return name.find(place) != name.npos; }))
      return place;
  return {};
}

// and adds to the wrong sum here.
TEST(AddedUp, WaitsThatDifferInOneThingAreCountedApart) {
  const auto program = started({SIMILAR_LOAD, "wait"});
  const Profiled what = profiled(options_of_waits(program));
  std::map<std::string, std::map<std::string, int>> waits;
  for (const Sample& sample : what.profile.samples)
    for (const std::string& function : test::functions_of(what.profile, sample))
      if (const std::string kind = test::bare_name(function); kind.starts_with("by_"))
        if (const std::string group = group_of(what, sample, kind); !group.empty())
          ++waits[kind][group];
#if defined(__x86_64__)
  EXPECT_EQ(waits.size(), 9U);
#endif
  for (const auto& [kind, of_group] : waits) {
    ASSERT_EQ(of_group.size(), 2U) << kind;
    const int one = of_group.begin()->second, other = of_group.rbegin()->second;
    fmt::print("{}: {} {}, {} {}\n", kind, one, of_group.begin()->first, other,
               of_group.rbegin()->first);
    // The last of each may not be whole, and before all is known of the program a few waits have no labels.
    EXPECT_NEAR(one, other, 30 + (one + other) / 20) << kind;
  }
}

TEST(AddedUp, SamplesThatDifferInOneThingHaveLabelsOfTheirOwn) {
  const auto program = started({SIMILAR_LOAD, "work"});
  observe::ProfilingOptions options = options_of(program);
  options.verify_unwind = true;
  const Profiled what = profiled(options);
  fmt::print("labels like those of the sample before: {}, {} of them other ones\n",
             what.unwinding.known_labels, what.unwinding.other_labels);
  EXPECT_GT(what.unwinding.known_labels * 10, what.profile.samples.size());
  EXPECT_EQ(what.unwinding.other_labels, 0U);
}

}  // namespace
}  // namespace vitrine
