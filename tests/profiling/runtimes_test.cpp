// What runtimes and linkers put between functions: trampolines without CFI, stubs of linkage tables,
// functions without symbols.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>
#include <tuple>

#include "profiling/profiled.hpp"
#include "support/child.hpp"

namespace vitrine {
namespace {

using namespace std::chrono_literals;
using profile::Sample;

test::Profiled profiled(std::vector<std::string> command) {
  auto child = test::Child::spawn(std::move(command));
  EXPECT_EQ(child.read_line(120s), "ready");
  observe::ProfilingOptions options;
  options.pids = {child.pid()};
  options.frequency = 999;
  auto what = test::profile_while(options, [] { std::this_thread::sleep_for(2s); });
  std::error_code none;  // of programs that wrote one
  std::filesystem::remove(fmt::format("/tmp/perf-{}.map", child.pid()), none);
  return what;
}

TEST(Trampolines, OfCPythonAreUnwound) {
  const auto what = profiled({TRAMPOLINES});
  const auto& samples = what.profile.samples;
  ASSERT_GT(samples.size(), 20U);
  const auto whole = std::ranges::count_if(samples, [&](const Sample& sample) {
    return what.profile.stacks.at(sample.stack).end == profile::StackEnd::outermost &&
           test::reaches_the_start(what.profile, sample);
  });
  fmt::print("{} of {} whole\n", whole, samples.size());
  EXPECT_GE(static_cast<std::size_t>(whole) * 100, samples.size() * 99);
}

TEST(JitCode, InAMemfdIsNamedByItsPerfMap) {
  const auto what = profiled({DOUBLE_MAPPED});
  const auto& samples = what.profile.samples;
  ASSERT_GT(samples.size(), 20U);
  const auto named = std::ranges::count_if(samples, [&](const Sample& sample) {
    const auto functions = test::functions_of(what.profile, sample);
    return std::ranges::find(functions, "int32 [made] Program::Spin()") != functions.end() &&
           test::reaches_the_start(what.profile, sample);
  });
  fmt::print("{} of {} named, with their callers\n", named, samples.size());
  EXPECT_GE(static_cast<std::size_t>(named) * 100, samples.size() * 95);  // the rest: the kernel's
}

bool is_installed(const char* program) {
  return std::system(fmt::format("command -v {} >/dev/null", program).c_str()) == 0;
}

/// Whether the profile says so of a process.
testing::AssertionResult advises(const test::Profiled& what, std::string_view option) {
  for (const std::string& problem : what.profile.problems)
    if (problem.find(option) != problem.npos) return testing::AssertionSuccess() << problem;
  return testing::AssertionFailure()
         << fmt::format("{} problems, none of which has {}", what.profile.problems.size(), option);
}

TEST(Advice, OfNodeNamesTheOptionUntilItIsGiven) {
  if (!is_installed("node")) GTEST_SKIP() << "node is not installed";
  const char* script =
      "function spinAround() { let n = 0; for (let i = 0; i < 1e6; ++i) n += i % 7; return n; }"
      "console.log('ready'); for (;;) spinAround();";
  EXPECT_TRUE(advises(profiled({"node", "-e", script}), "--perf-basic-prof"));
  const auto named = profiled({"node", "--perf-basic-prof", "-e", script});
  EXPECT_FALSE(advises(named, "--perf-basic-prof"));
  EXPECT_TRUE(std::ranges::any_of(named.profile.functions, [](const profile::Function& function) {
    return function.name.find("spinAround") != std::string::npos;
  }));
}

TEST(Advice, OfJavaNamesWhatIsMissing) {
  if (!is_installed("java")) GTEST_SKIP() << "java is not installed";
  const auto source = std::filesystem::path(testing::TempDir()) / "Spin.java";
  // With an argument, it writes a perf map of what has been compiled by then; "early": before that is anything.
  std::ofstream(source) << R"(class Spin {
  static long spin() { long n = 0; for (int i = 0; i < 1000000; ++i) n += i % 7; return n; }
  public static void main(String[] arguments) throws Exception {
    if (arguments.length == 0 || !arguments[0].equals("early"))
      for (int i = 0; i < 200; ++i) spin();
    if (arguments.length != 0)
      java.lang.management.ManagementFactory.getPlatformMBeanServer().invoke(
          new javax.management.ObjectName("com.sun.management:type=DiagnosticCommand"),
          "compilerPerfmap", null, null);
    System.out.println("ready");
    for (;;) spin();
  }
})";
  const std::string option = "-XX:+PreserveFramePointer";
  const auto neither = profiled({"java", source});
  EXPECT_TRUE(advises(neither, option));
  EXPECT_TRUE(advises(neither, "perf map"));
  const auto with_map = profiled({"java", source, "map"});
  EXPECT_TRUE(advises(with_map, option));
  EXPECT_FALSE(advises(with_map, "perf map"));
  const auto with_option = profiled({"java", option, source});
  EXPECT_TRUE(advises(with_option, "perf map"));
  EXPECT_FALSE(advises(with_option, option));
  EXPECT_FALSE(advises(with_option, "newer than its perf map"));
  EXPECT_TRUE(advises(profiled({"java", option, source, "early"}), "newer than its perf map"));
}

/// The name is all that Python is known by: this is another program, without a perf map, with one, and with one
/// after it has been a shell.
TEST(Advice, OfPythonIsForTheProgramThatItHasExecuted) {
  const auto folder =
      std::filesystem::path(testing::TempDir()) / fmt::format("vitrine-advice-{}", ::getpid());
  const auto as_python = [&](const std::string& program, const std::string& place) {
    std::filesystem::create_directories(folder / place);
    std::string path = folder / place / "python3.12";
    std::filesystem::copy_file(std::filesystem::canonical(program), path);
    return path;
  };
  const std::string python = as_python(TRAMPOLINES, "python");
  EXPECT_TRUE(advises(profiled({python}), "-X perf"));
  EXPECT_FALSE(advises(profiled({python, "map"}), "-X perf"));

  auto child = test::Child::spawn(
      {as_python("/bin/sh", "shell"), "-c",
       "echo ready; i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; exec " + python + " map"});
  EXPECT_EQ(child.read_line(), "ready");
  observe::ProfilingOptions options;
  options.pids = {child.pid()};
  options.frequency = 999;
  const auto what = test::profile_while(options, [&] {
    EXPECT_EQ(child.read_line(60s), "ready");
    std::this_thread::sleep_for(1s);
  });
  std::error_code none;
  std::filesystem::remove(fmt::format("/tmp/perf-{}.map", child.pid()), none);
  std::filesystem::remove_all(folder, none);
  EXPECT_GT(what.profile.samples.size(), 20U);
  EXPECT_FALSE(advises(what, "-X perf"));
}

TEST(Stripped, FunctionsAreSeparateAndStubsAreNamed) {
  const auto what = profiled({STRIPPED});
  ASSERT_GT(what.profile.samples.size(), 20U);
  std::size_t in_functions = 0, in_stubs = 0;
  for (const profile::Function& function : what.profile.functions) {
    in_functions += function.name.starts_with("trampolines-stripped+0x");
    in_stubs += function.name == "labs@plt";
  }
  EXPECT_GE(in_functions, 2U);  // main and evaluate
  EXPECT_GE(in_stubs, 1U);
}

/// Of the samples in the vdso, those that reach the beginning of their goroutine.
void expect_whole_in_vdso(const char* program, std::string_view caller) {
  const auto what = profiled({program});
  std::size_t in_vdso = 0, whole = 0;
  for (const Sample& sample : what.profile.samples) {
    const profile::Stack& stack = what.profile.stacks.at(sample.stack);
    const auto functions = test::functions_of(what.profile, sample);
    if (std::ranges::find(functions, "__vdso_clock_gettime") == functions.end()) continue;
    ++in_vdso;
    // time.now is between the two.
    whole += stack.end == profile::StackEnd::outermost && functions.size() > 4 &&
             std::ranges::find(functions, caller) != functions.end();
  }
  fmt::print("{}: {} of {} in the vdso, {} whole\n", program, in_vdso, what.profile.samples.size(),
             whole);
  ASSERT_GT(in_vdso, 100U);
  EXPECT_GE(whole * 100, in_vdso * 99);
  // Stripped or not, a function has the name that Go's own table has.
  std::size_t ends = 0;
  for (const profile::Function& function : what.profile.functions) {
    EXPECT_FALSE(function.name.ends_with(".abi0")) << function.name;
    ends += function.name == "runtime.goexit";
  }
  EXPECT_EQ(ends, 1U) << program;
}

TEST(Go, CallsOfTheVdsoHaveTheirCallers) {
  expect_whole_in_vdso(GO_CLOCK, "main.main");
  expect_whole_in_vdso(GO_CLOCK "-cgo", "main.main");
}

TEST(Go, CallsOfTheVdsoHaveTheirCallersInStrippedPrograms) {
  expect_whole_in_vdso(GO_CLOCK "-stripped", "main.main");
}

/// What must be among the callers of a function.
const std::map<std::string, std::vector<std::string>> callers_in_calls_c{
    {"spin_in_c", {"c_leaf", "main.callsC", "main.main"}},
    {"main.spinInGo", {"main.goCallback", "c_calls_go", "main.callsBack", "main.main"}},
    {"runtime.GC", {"main.collects", "main.main"}},
    {"runtime.readmemstats_m", {"runtime.ReadMemStats", "main.readsStats", "main.main"}},
    {"time.now", {"main.asksForTime", "main.main"}},
};

class GoCallsC : public testing::TestWithParam<std::tuple<const char*, observe::Unwind>> {};

/// Go calls C, which calls Go, several times over; the runtime works on the thread's own stack.
TEST_P(GoCallsC, StacksGoThroughEachOfTheirStacks) {
  const auto& [kind, unwind] = GetParam();
  auto child = test::Child::spawn({std::string(GO_CALLS_C) + kind});
  const std::string version = child.read_line().value_or("");
  ASSERT_TRUE(version.starts_with("ready go1.")) << version;
  if (std::atoi(version.c_str() + 10) < 21)
    GTEST_SKIP() << version << " has no frame pointers there";
  observe::ProfilingOptions options;
  options.pids = {child.pid()};
  options.frequency = 1999;
  options.unwind = unwind;
  options.verify_unwind = unwind == observe::Unwind::kernel;
  const auto what = test::profile_while(options);  // until it ends
  std::map<std::string, std::pair<std::size_t, std::size_t>> seen;
  std::size_t whole = 0;
  const bool is_stripped = std::string_view(kind) == "-stripped";  // of C nothing has a name then
  for (const Sample& sample : what.profile.samples) {
    whole += what.profile.stacks.at(sample.stack).end == profile::StackEnd::outermost;
    const auto functions = test::functions_of(what.profile, sample);
    for (const auto& [function, callers] : callers_in_calls_c) {
      const auto at = std::ranges::find(functions, function);
      if (at == functions.end()) continue;
      auto& [right, all] = seen[function];
      ++all;
      auto from = at;
      right += std::ranges::all_of(callers, [&](const std::string& caller) {
        if (is_stripped && caller.starts_with("c_")) return true;
        from = std::find(from, functions.end(), caller);
        return from != functions.end();
      });
    }
  }
  for (const std::string& note : what.notes) fmt::print("{}\n", note);
  fmt::print("{} of {} whole\n", whole, what.profile.samples.size());
  EXPECT_GE(whole * 100, what.profile.samples.size() * 99);
  std::size_t right = 0, all = 0;
  for (const auto& [function, its] : seen) {
    fmt::print("{}: {} of {} have their callers\n", function, its.first, its.second);
    right += its.first;
    all += its.second;
  }
  EXPECT_EQ(seen.size(), callers_in_calls_c.size() - is_stripped);
  EXPECT_GT(all, 50U);
  EXPECT_GE(right * 100, all * 99);
  if (options.verify_unwind) {
    EXPECT_GE(what.unwinding.agreed * 1000, what.unwinding.compared * 995);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, GoCallsC,
                         testing::Combine(testing::Values("", "-stripped", "-pie"),
                                          testing::Values(observe::Unwind::kernel,
                                                          observe::Unwind::copy)),
                         [](const auto& all) { return "Program" + std::to_string(all.index); });

}  // namespace
}  // namespace vitrine
