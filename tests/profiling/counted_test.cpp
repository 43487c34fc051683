// Samples add up to the time that was used, where threads and processes begin and end all the time.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "profile/encode.hpp"
#include "profiling/on_cpu.hpp"
#include "profiling/profiled.hpp"
#include "support/child.hpp"

namespace vitrine {
namespace {

using namespace std::chrono_literals;

class Counted : public testing::TestWithParam<std::string> {};

// The truth is what passes between the switches to the threads and away from them. rusage is another time: when a
// wake-up preempts a thread, the kernel charges what passes between the wake-up and the switch to the thread that was
// woken, which are some percent where there are many switches. Where nothing else runs, the switches were seen to have up
// to a tenth less than rusage and the samples: the larger one is the upper bound. Of ticks that came late, no clock has
// all; and none falls into the time that a tick itself takes, which is the thread's: together they are less than what is
// allowed.
TEST_P(Counted, IsTheTimeOnACpu) {
  constexpr double allowed = 0.02;
  constexpr unsigned frequency = 3701;  // no multiple of the scheduler's ticks
  auto load = test::Child::spawn({COUNTED, GetParam(), "4000"});
  ASSERT_EQ(load.read_line(), "ready");
  // Both alike: what runs whenever the clock has ticked, and not for a period, is never seen by it.
  for (const pid_t pid : {pid_t{0}, load.pid()})
    ASSERT_EQ(::setpriority(PRIO_PROCESS, static_cast<id_t>(pid), -20), 0);
  observe::ProfilingOptions options;
  options.pids = {load.pid()};
  options.follow = true;
  options.frequency = frequency;
  const auto on_cpu = test::OnCpu::begin(load.pid(), frequency);
  ASSERT_NE(on_cpu, nullptr);
  long long used_ns = 0;
  const auto what = test::profile_while(options, [&] {
    load.write("\n");
    std::sscanf(load.read_line(60s).value_or("").c_str(), "%lld", &used_ns);
  });
  const test::OnCpu::Times times = on_cpu->end();
  ASSERT_GT(times.ticks, 0U);
  EXPECT_EQ(times.lost, 0U);
  const std::size_t samples = what.profile.samples.size();
  const double period_ns = 1e9 / frequency;
  const double sampled_ns = static_cast<double>(samples + what.profile.losses.events) * period_ns;
  const double ticked_ns = static_cast<double>(times.ticks) * period_ns;
  const auto ends = profile::count_ends(what.profile);
  const std::size_t gone = ends[static_cast<std::size_t>(profile::StackEnd::gone)];
  fmt::print(
      "{} samples and {} lost: {:.4f} of the time on a CPU ({} switches), {:.4f} of another "
      "clock's ticks, {:.4f} of "
      "rusage; {} of ended ones\n",
      samples, what.profile.losses.events, sampled_ns / times.ns, times.switches,
      sampled_ns / ticked_ns, sampled_ns / static_cast<double>(used_ns), gone);
  for (const std::string& note : what.notes) fmt::print("note: {}\n", note);
  const double error = 1.5 / std::sqrt(static_cast<double>(samples));
  EXPECT_GT(sampled_ns, std::min(times.ns, ticked_ns) * (1 - allowed - error));
  EXPECT_LT(sampled_ns, std::max(times.ns, static_cast<double>(used_ns)) * (1 + allowed + error));
  EXPECT_LE(gone * 20, samples);
}

INSTANTIATE_TEST_SUITE_P(In, Counted, testing::Values("threads", "forks", "programs", "chains"),
                         [](const auto& kind) { return kind.param; });

// As when the profiler has to wait for a CPU: it looks at all samples seconds after the first programs were replaced.
TEST(ReplacedPrograms, AreKnownToSamplesThatAreLookedAtLate) {
  auto load = test::Child::spawn({"sh", "-c", "read start; exec " COUNTED " program 40 80"});
  observe::ProfilingOptions options;
  options.pids = {load.pid()};
  options.frequency = 199;
  auto profiling = observe::Profiling::open(options);
  ASSERT_TRUE(profiling) << profiling.error().message;
  ASSERT_TRUE((*profiling)->poll(0ms));
  load.write("\n");
  EXPECT_FALSE(load.read_line(60s)) << "it ends";
  while (!(*profiling)->ended()) ASSERT_TRUE((*profiling)->poll(10ms));
  (*profiling)->stop();
  ASSERT_TRUE((*profiling)->poll(10ms));
  const profile::Profile profile = (*profiling)->take();
  EXPECT_GT(profile.samples.size(), 100U);
  EXPECT_EQ(profile::count_ends(profile)[static_cast<std::size_t>(profile::StackEnd::gone)], 0U);
}

}  // namespace
}  // namespace vitrine
