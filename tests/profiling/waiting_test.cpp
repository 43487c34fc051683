// Time off the CPU, against the clock of those who wait.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <sstream>

#include "profile/encode.hpp"
#include "profiling/profiled.hpp"
#include "support/child.hpp"

namespace vitrine {
namespace {

using namespace std::chrono_literals;
using profile::Measure;

TEST(Waiting, IsWhatTheThreadsOwnClockSays) {
  test::Child load = test::Child::spawn({WAITING_LOAD, "120"});
  ASSERT_EQ(load.read_line(), "ready");
  const auto profiled = test::profile_load(test::options_of_waits(load.pid()), load);

  std::map<std::string, std::map<std::string, double>> sampled;
  for (const auto& sample : profiled.profile.samples) {
    EXPECT_EQ(sample.measure, Measure::off_cpu);
    sampled[test::label_of(profiled.profile, sample, "tenant")][test::label_of(
        profiled.profile, sample, "kind")] += static_cast<double>(sample.value_ns);
  }
  std::map<std::string, double> by_tenant, own_by_tenant;
  ASSERT_EQ(profiled.printed.size(), 12U);
  for (const std::string& line : profiled.printed) {
    std::istringstream words(line);
    std::string tenant, kind;
    double own = 0;
    ASSERT_TRUE(words >> tenant >> kind >> own) << line;
    const double ours = sampled[tenant][kind];
    // A thread that is put off between its clock and its call has not waited, but its clock says so.
    EXPECT_NEAR(ours / own, 1, 0.05) << line;
    fmt::print("{} {}: {:.2f} ms, by its own clock {:.2f} ms ({:+.2f} %)\n", tenant, kind,
               ours / 1e6, own / 1e6, (ours / own - 1) * 100);
    by_tenant[tenant] += ours;
    own_by_tenant[tenant] += own;
  }
  for (const auto& [tenant, own] : own_by_tenant)
    EXPECT_NEAR(by_tenant[tenant] / own, 1, 0.02) << tenant;
  // Who computes does not wait, even if it has to share its CPU.
  EXPECT_LT(sampled["busy"][""], by_tenant["acme"] / 100);
  EXPECT_EQ(profiled.profile.losses.events, 0U);
}

// Stacks and whole samples that are known are taken as well, to compare.
TEST(Waiting, IsTheOneBeforeOnlyIfAllOfItIs) {
  test::Child load = test::Child::spawn({WAITING_LOAD, "120"});
  ASSERT_EQ(load.read_line(), "ready");
  observe::ProfilingOptions options = test::options_of_waits(load.pid());
  options.verify_unwind = true;
  const auto profiled = test::profile_load(options, load);
  const observe::UnwindCounts& counts = profiled.unwinding;
  fmt::print("{} samples, stacks of the kernel that were known: {}, {} of them wrong\n",
             profile::number_of_samples(profiled.profile), counts.kernel_known,
             counts.kernel_wrong);
  fmt::print("waits like the ones before: {}, {} of them other ones\n", counts.like_before,
             counts.not_like);
#if defined(__x86_64__)
  EXPECT_GT(counts.kernel_known, profile::number_of_samples(profiled.profile) / 4);
  EXPECT_GT(counts.like_before, profile::number_of_samples(profiled.profile) / 10);
#endif
  EXPECT_EQ(counts.kernel_wrong, 0U);
  EXPECT_EQ(counts.not_like, 0U);
}

}  // namespace
}  // namespace vitrine
