// Samples that a filter does not want: refused in the kernel, and counted, by label and by thread.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>

#include "profile/encode.hpp"
#include "profiling/profiled.hpp"
#include "support/child.hpp"

namespace vitrine {
namespace {

using namespace std::chrono_literals;
using test::Profiled;

/// All that were taken are somewhere.
void expect_counted(const Profiled& what) {
  const observe::FilterCounts& counts = what.filtered;
  fmt::print("taken {}, refused in the kernel {}, here {}, in the profile {}, lost {}\n",
             counts.taken, counts.refused_in_kernel, counts.refused_here,
             profile::number_of_samples(what.profile), what.profile.losses.events);
  EXPECT_EQ(counts.taken, counts.refused_in_kernel + counts.refused_here +
                              profile::number_of_samples(what.profile) +
                              what.profile.losses.events);
}

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
  expect_counted(what);
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

TEST(Filtered, SpansWithEqualLabelsAreRefusedTogether) {
  const Profiled what = filtered("span", "tenant=acme");
  expect_only(what, "acme");
  EXPECT_GT(what.filtered.refused_in_kernel, 4 * what.filtered.refused_here);
  // Each is a subject of its own where the filter asks for it.
  const Profiled none = filtered("span", "tenant=acme,span_id=");
  EXPECT_TRUE(none.profile.samples.empty());
  const Profiled all = filtered("span", "span_id!=");
  EXPECT_FALSE(all.profile.samples.empty());
  // Those between two spans have none.
  EXPECT_LT(10 * (all.filtered.refused_in_kernel + all.filtered.refused_here), all.filtered.taken);
}

// A record may be in force before the process has published what its keys are called.
TEST(Filtered, LabelsWhoseKeysAreNamedLaterAreWanted) {
  test::Child program = test::Child::spawn({LATE_KEYS});
  program.read_until("ready");
  observe::ProfilingOptions options;
  options.pids = {program.pid()};
  options.frequency = 499;
  options.only =
      std::make_shared<const profile::Filter>(profile::Filter::parse("tenant=acme").value());
  const Profiled what = test::profile_while(options, [&] {
    program.read_until("published");
    std::this_thread::sleep_for(3s);
  });
  expect_counted(what);
  expect_only(what, "acme");
  EXPECT_GT(profile::number_of_samples(what.profile), 499U);
}

// Samples that differ by their spans alone are sent as these, but not where the filter has to see them.
TEST(Filtered, SpansAreNotTakenForOthersBesideWakers) {
  test::Child program = test::Child::spawn({LABEL_TURNS, "span"});
  program.read_until("ready");
  observe::ProfilingOptions options;
  options.pids = {program.pid()};
  options.frequency = 999;
  options.off_cpu = options.wakers = true;
  auto parsed = profile::Filter::parse("trace_id~^01[0-7]");  // half of them
  ASSERT_TRUE(parsed);
  options.only = std::make_shared<const profile::Filter>(std::move(*parsed));
  const Profiled what = test::profile_while(options, [] { std::this_thread::sleep_for(2s); });
  expect_counted(what);
  std::uint64_t of_spans = 0, others = 0;
  for (const profile::Sample& sample : what.profile.samples) {
    ASSERT_NE(sample.link, profile::none);
    const auto& trace_id = what.profile.links[sample.link].trace_id;
    (trace_id[1] < 0x80 ? of_spans : others) += sample.count;
  }
  EXPECT_EQ(others, 0U);
  EXPECT_GT(of_spans * 10, what.filtered.taken);
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

std::filesystem::path copy_of_turns(const std::string& name) {
  const auto file = std::filesystem::temp_directory_path() / (name + std::to_string(::getpid()));
  std::filesystem::copy_file(LABEL_TURNS, file, std::filesystem::copy_options::overwrite_existing);
  return file;
}

/// A program of another file, so that no other test's is taken for it.
struct Program {
  std::filesystem::path file;
  test::Child child;

  Program(const std::string& name, const std::string& how)
      : file(copy_of_turns(name)), child(test::Child::spawn({file, how})) {
    child.read_until("ready");
  }
  ~Program() { std::filesystem::remove(file); }
};

void expect_selected(bool off_cpu) {
  const std::string how = off_cpu ? "wait" : "work";
  const Program selected("selected-", how), other("other-", how), third("third-", how);
  observe::ProfilingOptions options;
  options.all = true;
  options.frequency = 999;
  options.on_cpu = !off_cpu;
  options.off_cpu = off_cpu;
  options.selection.programs = {selected.file.filename()};
  const Profiled what = test::profile_while(options, [] { std::this_thread::sleep_for(2s); });
  expect_counted(what);
  EXPECT_FALSE(what.profile.samples.empty());
  for (const profile::Process& process : what.profile.processes)
    EXPECT_EQ(process.pid, static_cast<std::uint32_t>(selected.child.pid()));
  EXPECT_GT(what.filtered.refused_in_kernel, what.filtered.refused_here);
}

TEST(Filtered, ProcessesThatAreNotSelectedAreRefusedInTheKernel) {
  expect_selected(false);
}

TEST(Filtered, TheirWaitsAreToo) {
  expect_selected(true);
}

}  // namespace
}  // namespace vitrine
