// Samples that a filter does not want: refused in the kernel, and counted, by label and by thread.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

#include "profile/encode.hpp"
#include "profiling/profiled.hpp"
#include "support/child.hpp"

namespace vitrine {
namespace {

using namespace std::chrono_literals;
using test::Profiled;

Profiled filtered(const std::string& how, const std::string& filter, bool off_cpu = false) {
  test::Child program = test::Child::spawn({LABEL_TURNS, how});
  program.read_until("ready");
  observe::ProfilingOptions options;
  options.pids = {program.pid()};
  options.frequency = 999;
  options.on_cpu = !off_cpu;
  options.off_cpu = off_cpu;
  auto parsed = profile::Filter::parse(filter);
  EXPECT_TRUE(parsed);
  options.only = std::make_shared<const profile::Filter>(std::move(*parsed));
  Profiled what = test::profile_while(options, [] { std::this_thread::sleep_for(2s); });
  const observe::FilterCounts& counts = what.filtered;
  fmt::print("taken {}, refused in the kernel {}, here {}, in the profile {}, lost {}\n",
             counts.taken, counts.refused_in_kernel, counts.refused_here,
             profile::number_of_samples(what.profile), what.profile.losses.events);
  EXPECT_EQ(counts.taken, counts.refused_in_kernel + counts.refused_here +
                              profile::number_of_samples(what.profile) +
                              what.profile.losses.events);
  return what;
}

void expect_only(const Profiled& what, std::string_view tenant) {
  EXPECT_FALSE(what.profile.samples.empty());
  for (const profile::Sample& sample : what.profile.samples)
    EXPECT_EQ(test::label_of(what.profile, sample, "tenant"), tenant);
}

TEST(Filtered, SamplesAreRefusedInTheKernelByTheirLabels) {
  const Profiled what = filtered("work", "tenant=acme");
  expect_only(what, "acme");
  EXPECT_GT(what.filtered.refused_in_kernel, what.filtered.refused_here);
}

TEST(Filtered, WaitsAreRefusedInTheKernelByTheirLabels) {
  const Profiled what = filtered("wait", "tenant~^glob,route=/pay", true);
  expect_only(what, "globex");
  EXPECT_GT(what.filtered.refused_in_kernel, what.filtered.refused_here);
}

TEST(Filtered, ThreadsAndProcessorsThatAFilterHasAreSubjectsOfTheirOwn) {
  const Profiled none = filtered("work", "tenant=acme,cpu=1000000");
  EXPECT_TRUE(none.profile.samples.empty());
  EXPECT_GT(none.filtered.refused_in_kernel, none.filtered.refused_here);
  const Profiled all = filtered("work", "thread=label_turns,cpu!=1000000");
  EXPECT_EQ(all.filtered.refused_in_kernel + all.filtered.refused_here, 0U);
  EXPECT_FALSE(all.profile.samples.empty());
}

}  // namespace
}  // namespace vitrine
