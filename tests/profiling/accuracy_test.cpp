// Half a minute of a program that says itself how it spends its time: do shares, traces and stacks
// say the same, and does perf, beside us?
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <sstream>

#include "profiling/perf_script.hpp"
#include "profiling/profiled.hpp"
#include "profiling/span.hpp"
#include "support/child.hpp"

namespace vitrine {
namespace {

using namespace std::chrono_literals;
using profile::Measure;
using profile::Profile;
using profile::Sample;
using test::label_of;

constexpr int workers = 4;

struct Load {
  test::Child program = test::Child::spawn({TENANT_LOAD, std::to_string(workers)});
  std::map<std::uint32_t, std::uint8_t> worker_of_tid;

  Load() {
    for (const std::string& line : program.read_until("ready")) {
      unsigned worker = 0, tid = 0;
      std::sscanf(line.c_str(), "worker %u %u", &worker, &tid);
      worker_of_tid[tid] = static_cast<std::uint8_t>(worker);
    }
  }

  /// Nanoseconds of each tenant so far.
  std::vector<double> spent() {
    program.write("\n");
    std::istringstream line(program.read_line().value_or(""));
    std::vector<double> numbers;
    for (double number; line >> number;) numbers.push_back(number);
    numbers.resize(test::tenants.size());
    return numbers;
  }
};

/// In percent, by tenant.
void expect_shares(const Profile& profile, const std::vector<double>& spent) {
  const auto times = test::time_by(profile, Measure::on_cpu, "tenant");
  double sampled = 0, all_spent = 0;
  for (const auto& [tenant, time] : times) sampled += time;
  for (const double time : spent) all_spent += time;
  for (std::size_t i = 0; i < test::tenants.size(); ++i) {
    const auto& tenant = test::tenants[i];
    const auto time = times.find(std::string(tenant.name));
    ASSERT_NE(time, times.end()) << "no sample of " << tenant.name;
    const double share = time->second * 100 / sampled;
    EXPECT_NEAR(spent[i] * 100 / all_spent, tenant.share, 0.5) << "the load itself is off";
    EXPECT_NEAR(share, spent[i] * 100 / all_spent, 1) << tenant.name;
    fmt::print("{}: {:.2f} % of the samples' time, {:.2f} % of what was spent\n", tenant.name,
               share, spent[i] * 100 / all_spent);
  }
  EXPECT_NEAR(sampled / all_spent, 1, 0.05) << "samples stand for more or less time than was spent";
}

/// The ids of a sample name the tenant and the worker that its labels and its thread name.
void expect_traces(const Profile& profile, const Load& load) {
  std::size_t wrong = 0, seen = 0;
  std::set<std::uint32_t> spans;
  std::string example;
  for (const Sample& sample : profile.samples) {
    const std::string tenant = label_of(profile, sample, "tenant");
    if (tenant.empty()) continue;  // between two turns
    ++seen;
    if (sample.link == profile::none) {
      ++wrong;
      example = "no trace";
      continue;
    }
    const profile::Link& link = profile.links.at(sample.link);
    const test::Span span = test::span_of(link.span_id);
    const auto worker = load.worker_of_tid.find(sample.tid);
    const auto whole = test::ids_of(span);
    if (whole.trace_id != link.trace_id || whole.span_id != link.span_id ||
        span.tenant >= test::tenants.size() || test::tenants[span.tenant].name != tenant ||
        std::to_string(span.worker) != label_of(profile, sample, "worker") ||
        worker == load.worker_of_tid.end() || worker->second != span.worker) {
      ++wrong;
      example = fmt::format("span {} of {} and worker {} at labels of {}, worker {}, tid {}",
                            span.number, span.tenant, span.worker, tenant,
                            label_of(profile, sample, "worker"), sample.tid);
    }
    spans.insert(span.number);
  }
  EXPECT_EQ(wrong, 0U) << "of " << seen << ", e.g. " << example;
  EXPECT_GT(spans.size(), seen / 80) << "the ids hardly ever change";
  std::size_t unlabelled = 0;
  for (const Sample& sample : profile.samples)
    unlabelled += label_of(profile, sample, "tenant").empty() ? 1 : 0;
  EXPECT_LT(unlabelled, profile.samples.size() / 100) << "samples without labels";
}

void expect_whole_stacks(const Profile& profile) {
  std::size_t whole = 0;
  for (const Sample& sample : profile.samples)
    whole += test::reaches_the_start(profile, sample) ? 1 : 0;
  EXPECT_GT(whole, profile.samples.size() * 99 / 100) << "of " << profile.samples.size();
}

/// Shares of samples with each of the load's functions on the stack: ours and perf's.
void expect_same_functions(const Profile& profile, const test::PerfStacks& theirs) {
  ASSERT_GT(theirs.size(), 500U) << "perf's samples";
  for (const std::string name : {"work_for_acme", "work_for_globex", "work_for_initech", "serve"}) {
    std::size_t ours = 0, perfs = 0;
    for (const Sample& sample : profile.samples) {
      const auto names = test::functions_of(profile, sample);
      ours += std::any_of(names.begin(), names.end(),
                          [&](const auto& one) { return test::bare_name(one) == name; })
                  ? 1
                  : 0;
    }
    for (const auto& names : theirs)
      perfs += std::any_of(names.begin(), names.end(),
                           [&](const auto& one) { return test::bare_name(one) == name; })
                   ? 1
                   : 0;
    const double our_share =
        static_cast<double>(ours) * 100 / static_cast<double>(profile.samples.size());
    const double perf_share = static_cast<double>(perfs) * 100 / static_cast<double>(theirs.size());
    EXPECT_NEAR(our_share, perf_share, 4) << name;
    fmt::print("{}: {:.1f} % of samples, perf: {:.1f} %\n", name, our_share, perf_share);
  }
}

TEST(Accuracy, SharesTracesAndStacksOfHalfAMinute) {
  Load load;
  std::vector<double> before, after;
  observe::ProfilingOptions options;
  options.pids = {load.program.pid()};
  options.frequency =
      999;  // beside ten other programs on two CPUs, still some ten thousand samples
  test::PerfStacks perf;
  const auto profiled = test::profile_while(options, [&] {
    before = load.spent();
    perf = test::perf_stacks(load.program.pid(), 30s);
    after = load.spent();
  });
  const Profile& profile = profiled.profile;
  ASSERT_GT(profile.samples.size(), 1000U);
  fmt::print("{} samples\n", profile.samples.size());
  for (const auto& problem : profile.problems) fmt::print("problem: {}\n", problem);
  for (const auto& note : profiled.notes) fmt::print("note: {}\n", note);
  for (std::size_t i = 0; i < after.size(); ++i) after[i] -= before.at(i);

  expect_shares(profile, after);
  expect_traces(profile, load);
  expect_whole_stacks(profile);
  expect_same_functions(profile, perf);
  EXPECT_EQ(profile.losses.events, 0U);
  EXPECT_EQ(profile.losses.unread_labels, 0U);
  EXPECT_EQ(profile.losses.truncated_labels, 0U);
}

}  // namespace
}  // namespace vitrine
