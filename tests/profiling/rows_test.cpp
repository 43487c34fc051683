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
  expect_equal(profiled(options), 5);
}

TEST(AddedUp, LabelSetsThatAreMadeAnewAreEqual) {
  const auto program = started({LABEL_TURNS, "work"});
  observe::ProfilingOptions options = options_of(program);
  options.verify_unwind = true;
  expect_equal(profiled(options), 50);
}

TEST(AddedUp, WaitsAreEqualToTheirRecords) {
  const auto program = started({LABEL_TURNS, "wait"});
  observe::ProfilingOptions options = options_of(program);
  options.on_cpu = false;
  options.off_cpu = true;
  options.verify_unwind = true;
  expect_equal(profiled(options), 50);
}

TEST(AddedUp, WaitsHaveTheirTimeByLabel) {
  const auto program = started({LABEL_TURNS, "wait"});
  observe::ProfilingOptions options = options_of(program);
  options.on_cpu = false;
  options.off_cpu = true;
  const Profiled what = profiled(options);
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

}  // namespace
}  // namespace vitrine
