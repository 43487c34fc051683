// What runtimes and linkers put between functions: trampolines without CFI, stubs of linkage tables,
// functions without symbols.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <thread>

#include "profiling/profiled.hpp"
#include "support/child.hpp"

namespace vitrine {
namespace {

using namespace std::chrono_literals;
using profile::Sample;

test::Profiled profiled(const char* program) {
  auto child = test::Child::spawn({program});
  EXPECT_EQ(child.read_line(), "ready");
  observe::ProfilingOptions options;
  options.pids = {child.pid()};
  options.frequency = 999;
  return test::profile_while(options, [] { std::this_thread::sleep_for(2s); });
}

TEST(Trampolines, OfCPythonAreUnwound) {
  const auto what = profiled(TRAMPOLINES);
  const auto& samples = what.profile.samples;
  ASSERT_GT(samples.size(), 20U);
  const auto whole = std::ranges::count_if(samples, [&](const Sample& sample) {
    return what.profile.stacks.at(sample.stack).end == profile::StackEnd::outermost &&
           test::reaches_the_start(what.profile, sample);
  });
  fmt::print("{} of {} whole\n", whole, samples.size());
  EXPECT_GE(static_cast<std::size_t>(whole) * 100, samples.size() * 99);
}

TEST(Stripped, FunctionsAreSeparateAndStubsAreNamed) {
  const auto what = profiled(STRIPPED);
  ASSERT_GT(what.profile.samples.size(), 20U);
  std::size_t in_functions = 0, in_stubs = 0;
  for (const profile::Function& function : what.profile.functions) {
    in_functions += function.name.starts_with("trampolines-stripped+0x");
    in_stubs += function.name == "strtol@plt" || function.name == "labs@plt";
  }
  EXPECT_GE(in_functions, 2U);  // main and evaluate
  EXPECT_GE(in_stubs, 1U);
}

/// Of the samples in the vdso, those that reach the beginning of their goroutine.
void expect_whole_in_vdso(const char* program, std::string_view caller) {
  const auto what = profiled(program);
  std::size_t in_vdso = 0, whole = 0;
  for (const Sample& sample : what.profile.samples) {
    const profile::Stack& stack = what.profile.stacks.at(sample.stack);
    const auto functions = test::functions_of(what.profile, sample);
    if (std::ranges::find(functions, "__vdso_clock_gettime") == functions.end()) continue;
    ++in_vdso;
    // time.now is between the two.
    whole += stack.end == profile::StackEnd::outermost && functions.size() > 4 &&
             (caller.empty() || std::ranges::find(functions, caller) != functions.end());
  }
  fmt::print("{}: {} of {} in the vdso, {} whole\n", program, in_vdso, what.profile.samples.size(),
             whole);
  ASSERT_GT(in_vdso, 100U);
  EXPECT_GE(whole * 100, in_vdso * 99);
}

TEST(Go, CallsOfTheVdsoHaveTheirCallers) {
  expect_whole_in_vdso(GO_CLOCK, "main.main");
  expect_whole_in_vdso(GO_CLOCK "-cgo", "main.main");
}

TEST(Go, CallsOfTheVdsoHaveTheirCallersInStrippedPrograms) {
  expect_whole_in_vdso(GO_CLOCK "-stripped", {});
}

}  // namespace
}  // namespace vitrine
