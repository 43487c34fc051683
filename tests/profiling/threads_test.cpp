// Many threads, each with labels of its own: every sample has those of its thread.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

#include "profiling/profiled.hpp"
#include "support/child.hpp"

namespace vitrine {
namespace {

using namespace std::chrono_literals;
using test::label_of;

/// The labels of working_threads: `worker`, and the same number in `tenant` and `route`.
void expect_labels_of_one_thread(const profile::Profile& profile) {
  std::map<std::uint32_t, std::set<std::string>> workers_of_tid;
  std::size_t mixed = 0, unlabelled = 0;
  for (const auto& sample : profile.samples) {
    const std::string worker = label_of(profile, sample, "worker");
    if (worker.empty()) {
      ++unlabelled;
      continue;
    }
    if (label_of(profile, sample, "tenant") != "tenant-" + worker ||
        label_of(profile, sample, "route") != "/route/" + worker)
      ++mixed;
    workers_of_tid[sample.tid].insert(worker);
  }
  EXPECT_EQ(mixed, 0U);
  for (const auto& [tid, workers] : workers_of_tid) EXPECT_EQ(workers.size(), 1U) << "tid " << tid;
  fmt::print("{} samples of {} threads, {} without labels\n", profile.samples.size(),
             workers_of_tid.size(), unlabelled);
}

class Threads : public testing::TestWithParam<int> {};

TEST_P(Threads, HaveTheirOwnLabelsAtEachSample) {
  const std::string count = std::to_string(GetParam());
  test::Child load = test::Child::spawn({WORKING_THREADS, count, count});
  ASSERT_EQ(load.read_line(60s), "ready");
  observe::ProfilingOptions options;
  options.pids = {load.pid()};
  options.frequency = 499;
  const auto profiled = test::profile_while(options, [] { std::this_thread::sleep_for(3s); });
  ASSERT_GT(profiled.profile.samples.size(), 100U);
  expect_labels_of_one_thread(profiled.profile);
  std::size_t unlabelled = 0;
  for (const auto& sample : profiled.profile.samples)
    unlabelled += label_of(profiled.profile, sample, "worker").empty() ? 1 : 0;
  EXPECT_LE(unlabelled, profiled.profile.samples.size() / 100);
  EXPECT_EQ(profiled.profile.losses.events, 0U);
}

INSTANTIATE_TEST_SUITE_P(Of, Threads, testing::Values(10, 10'000),
                         testing::PrintToStringParamName());

// Reading where so many threads wait takes some milliseconds, in which samples come.
class Intervals : public testing::TestWithParam<observe::Unwind> {};

TEST_P(Intervals, HaveTheSamplesOfTheirTime) {
  test::Child load = test::Child::spawn({WORKING_THREADS, "1000", "1000"});
  ASSERT_EQ(load.read_line(60s), "ready");
  observe::ProfilingOptions options;
  options.pids = {load.pid()};
  options.frequency = 2999;
  options.off_cpu = true;
  options.preempted = true;
  options.unwind = GetParam();
  auto profiling = observe::Profiling::open(options);
  ASSERT_TRUE(profiling) << profiling.error().message;
  std::uint64_t begins = 0;
  constexpr std::uint64_t noise_ns = 100'000;  // an interrupt that is under way
  for (int n = 0; n < 6; ++n) {
    ASSERT_TRUE((*profiling)->poll(300ms));
    const profile::Profile profile = (*profiling)->take();
    if (n != 0) {
      EXPECT_NEAR(static_cast<double>(static_cast<std::int64_t>(profile.start_ns - begins)), 0,
                  2000);
    }
    begins = profile.start_ns + profile.duration_ns;
    EXPECT_GT(profile.samples.size(), 100U);
    std::size_t outside = 0;
    for (const auto& sample : profile.samples)
      outside += sample.time_ns + noise_ns < profile.start_ns || sample.time_ns > begins + noise_ns;
    EXPECT_EQ(outside, 0U) << "of " << profile.samples.size() << " in interval " << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Intervals,
                         testing::Values(observe::Unwind::automatic, observe::Unwind::copy));

TEST(ThreadsOfACommand, AreSampledFromItsStart) {
  observe::ProfilingOptions options;
  options.command = {WORKING_THREADS, "200", "200", "8"};
  options.frequency = 999;
  const auto profiled = test::profile_while(options);
  expect_labels_of_one_thread(profiled.profile);
  EXPECT_THAT(test::time_by(profiled.profile, profile::Measure::on_cpu, "worker"),
              testing::SizeIs(testing::Gt(100)));
}

}  // namespace
}  // namespace vitrine
