// Samples are named with what was mapped at their time: of plugins that make room for each other, and of
// programs that have ended when their samples are looked at.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>
#include <set>
#include <thread>

#include "profiling/profiled.hpp"
#include "support/child.hpp"

namespace vitrine {
namespace {

using namespace std::chrono_literals;
using profile::Sample;
using test::Profiled;

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// The thread has the name of the plugin that runs, which the kernel gives with each sample.
void expect_plugins_kept_apart(const Profiled& what) {
  EXPECT_EQ(what.profile.losses.events, 0U);
  std::uint64_t of_plugins = 0, whole = 0, wrong = 0;
  for (const Sample& sample : what.profile.samples) {
    const bool is_a = sample.thread_name == "in_a", is_b = sample.thread_name == "in_b";
    if (!is_a && !is_b) continue;
    const auto names = test::functions_of(what.profile, sample);
    const std::string_view mine = is_a ? "a" : "b", other = is_a ? "b" : "a";
    of_plugins += has(names, fmt::format("nested_{}", mine));
    whole += has(names, fmt::format("nested_{}", mine)) && has(names, fmt::format("in_{}", mine)) &&
             has(names, "main");
    wrong += has(names, fmt::format("nested_{}", other)) || has(names, fmt::format("in_{}", other));
  }
  fmt::print("{} samples in plugins, {} whole, {} wrong\n", of_plugins, whole, wrong);
  ASSERT_GT(of_plugins, 50U);
  EXPECT_EQ(wrong, 0U);
  EXPECT_GE(whole * 100, of_plugins * 95);
}

class Plugins : public testing::TestWithParam<observe::Unwind> {};

TEST_P(Plugins, InTurnAtOneAddressAreNotTakenForEachOther) {
  auto program = test::Child::spawn({PLUGINS, PLUGIN_A, PLUGIN_B});
  ASSERT_EQ(program.read_line(), "ready");
  observe::ProfilingOptions options;
  options.pids = {program.pid()};
  options.frequency = 999;
  options.unwind = GetParam();
  expect_plugins_kept_apart(test::profile_while(options, [] { std::this_thread::sleep_for(2s); }));
}

INSTANTIATE_TEST_SUITE_P(Ways, Plugins,
                         testing::Values(observe::Unwind::kernel, observe::Unwind::copy),
                         [](const auto& way) {
                           return way.param == observe::Unwind::kernel ? "InTheKernel"
                                                                       : "FromCopies";
                         });

/// More of them than a history of code remembers until their samples, which the kernel has added up, come.
TEST(PluginsInTurn, WhoseSamplesComeAddedUpAreNotTakenForEachOther) {
  auto program = test::Child::spawn({PLUGINS, PLUGIN_A, PLUGIN_B, "6"});
  ASSERT_EQ(program.read_line(), "ready");
  observe::ProfilingOptions options;
  options.pids = {program.pid()};
  options.frequency = 2999;
  options.time_resolution = 10s;
  options.unwind = observe::Unwind::kernel;
  expect_plugins_kept_apart(
      test::profile_while(options, [] { std::this_thread::sleep_for(1500ms); }));
}

/// Of the programs that a storm starts.
void expect_named(const Profiled& what, pid_t storm) {
  std::size_t samples = 0, named = 0, in_its_code = 0;
  std::set<std::uint32_t> programs;
  for (const Sample& sample : what.profile.samples) {
    const auto& process = what.profile.processes.at(sample.process);
    if (sample.thread_name != "storm" || process.pid == static_cast<std::uint32_t>(storm)) continue;
    const auto names = test::functions_of(what.profile, sample);
    ++samples;
    named += !names.empty() && !has(names, "?");
    if (has(names, "?") && samples - named < 9)
      fmt::print("not named: {}\n", fmt::join(names, " "));
    in_its_code += has(names, "short_work") && has(names, "main");
    programs.insert(process.pid);
  }
  fmt::print("{} samples of {} programs, {} named, {} in their own code\n", samples,
             programs.size(), named, in_its_code);
  ASSERT_GT(samples, 50U);
  EXPECT_GT(programs.size(), 20U);
  EXPECT_GE(named * 100, samples * 90);
  EXPECT_GT(in_its_code, 0U);
}

/// As the command does: whoever profiles a busy machine must get at the processors.
void take_precedence() {
  EXPECT_EQ(::setpriority(PRIO_PROCESS, 0, -20), 0);
}

/// Processes that come and go are no trouble.
void expect_no_notes_of_processes(const Profiled& what) {
  for (const std::string& note : what.notes)
    EXPECT_THAT(note, testing::Not(testing::ContainsRegex("process [0-9]+")));
}

TEST(Storm, OfShortProgramsIsNamedInAProfileOfAllProcesses) {
  const auto storm = test::Child::spawn({STORM, "4"});
  take_precedence();
  observe::ProfilingOptions options;
  options.all = true;
  options.frequency = 999;
  expect_named(test::profile_while(options, [] { std::this_thread::sleep_for(3s); }), storm.pid());
}

TEST(Storm, OfShortProgramsIsNamedInAProfileOfTheirParent) {
  auto storm = test::Child::spawn({STORM, "4"});
  ASSERT_EQ(storm.read_line(), "ready");
  take_precedence();
  observe::ProfilingOptions options;
  options.pids = {storm.pid()};
  options.follow = true;
  options.frequency = 999;
  const auto what = test::profile_while(options, [] { std::this_thread::sleep_for(3s); });
  expect_named(what, storm.pid());
  expect_no_notes_of_processes(what);
}

/// In a sample of a program that the kernel was just loading, the process has a stack already, and no code.
TEST(Storm, ProgramsThatAreBeingLoadedAreProcessesOfTheirs) {
  constexpr int count = 100;
  test::ChildOptions its;
  its.env = {"OTEL_SERVICE_NAME=oven"};
  // They stay, so that each can be looked at.
  auto parent = test::Child::spawn(
      {"/bin/sh", "-c", "echo ready; while read go; do " STORM " stay & done"}, its);
  ASSERT_EQ(parent.read_line(), "ready");
  take_precedence();
  observe::ProfilingOptions options;
  options.all = true;
  options.frequency = 3999;
  std::set<std::uint32_t> pids;
  const auto what = test::profile_while(options, [&] {
    for (int i = 0; i < count; ++i) {
      parent.write("go\n");
      pids.insert(static_cast<std::uint32_t>(std::stoul(parent.read_line(60s).value_or("0"))));
    }
  });
  std::size_t samples = 0, without_executable = 0;
  std::set<std::uint32_t> sampled, named;
  for (const Sample& sample : what.profile.samples) {
    const auto& process = what.profile.processes.at(sample.process);
    // Before, it was the shell that forked it.
    if (!pids.contains(process.pid) || sample.thread_name != "storm") continue;
    ++samples;
    sampled.insert(process.pid);
    without_executable += process.executable.empty();
    if (std::ranges::any_of(process.resource, [](const auto& attribute) {
          return attribute.key == "service.name" && attribute.value == "oven";
        }))
      named.insert(process.pid);
  }
  fmt::print("{} samples, {} without executable; {} of {} processes have their service.name\n",
             samples, without_executable, named.size(), sampled.size());
  EXPECT_GT(sampled.size(), std::size_t{count} / 4);
  EXPECT_EQ(named, sampled);
  EXPECT_LE(without_executable * 100, samples);  // the shell's, which was never looked at
}

}  // namespace
}  // namespace vitrine
