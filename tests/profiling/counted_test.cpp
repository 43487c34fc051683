// Samples add up to the time that was used, where threads and processes begin and end all the time.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <cmath>
#include <cstdio>

#include "profile/encode.hpp"
#include "profiling/profiled.hpp"
#include "support/child.hpp"

namespace vitrine {
namespace {

using namespace std::chrono_literals;

class Counted : public testing::TestWithParam<std::string> {};

// rusage leaves out what the clock of a CPU sees, for perf too: some percent where processes begin and end,
// more on a busy machine (counted_beside_perf.py compares with perf).
TEST_P(Counted, IsTheTimeThatWasUsed) {
  constexpr double at_least = 0.96, at_most = 1.4;  // else something is counted twice
  auto load = test::Child::spawn({COUNTED, GetParam(), "4000"});
  ASSERT_EQ(load.read_line(), "ready");
  ASSERT_EQ(::setpriority(PRIO_PROCESS, 0, -20), 0);
  observe::ProfilingOptions options;
  options.pids = {load.pid()};
  options.follow = true;
  options.frequency = 3999;
  long long task_ns = 0, used_ns = 0;
  const auto what = test::profile_while(options, [&] {
    load.write("\n");
    std::sscanf(load.read_line(60s).value_or("").c_str(), "%lld %lld", &task_ns, &used_ns);
  });
  ASSERT_GT(used_ns, 0);
  const std::size_t samples = what.profile.samples.size();
  const double sampled_ns =
      static_cast<double>(samples + what.profile.losses.events) * 1e9 / options.frequency;
  const auto ends = profile::count_ends(what.profile);
  const std::size_t gone = ends[static_cast<std::size_t>(profile::StackEnd::gone)];
  fmt::print(
      "{} samples and {} lost: {:.4f} of the task clock, {:.4f} of rusage; {} of ended ones\n",
      samples, what.profile.losses.events, sampled_ns / static_cast<double>(task_ns),
      sampled_ns / static_cast<double>(used_ns), gone);
  for (const std::string& note : what.notes) fmt::print("note: {}\n", note);
  const double error = 1.5 / std::sqrt(static_cast<double>(samples));
  EXPECT_GT(sampled_ns / static_cast<double>(used_ns), at_least - error);
  EXPECT_LT(sampled_ns / static_cast<double>(used_ns), at_most + error);
  EXPECT_LE(gone * 20, samples);
}

INSTANTIATE_TEST_SUITE_P(In, Counted, testing::Values("threads", "forks", "programs", "chains"),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace vitrine
