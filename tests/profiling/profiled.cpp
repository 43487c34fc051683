#include "profiling/profiled.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "profile/encode.hpp"

namespace vitrine::test {

using profile::Profile;
using profile::Sample;

namespace {

/// Each sample of a sum by itself.
Profile each_alone(Profile profile) {
  std::vector<Sample> alone;
  for (const Sample& sample : profile.samples)
    for (Sample& one : profile::each_of(profile, sample)) alone.push_back(std::move(one));
  profile.samples = std::move(alone);
  return profile;
}

}  // namespace

observe::ProfilingOptions options_of_waits(pid_t pid) {
  observe::ProfilingOptions options;
  options.pids = {pid};
  options.on_cpu = false;
  options.off_cpu = true;
  return options;
}

Profiled profile_while(const observe::ProfilingOptions& options,
                       const std::function<void()>& meanwhile) {
  Profiled result;
  auto profiling = observe::Profiling::open(options);
  if (!profiling) {
    ADD_FAILURE() << profiling.error().message;
    return result;
  }
  const auto look = [&] {
    if (auto polled = (*profiling)->poll(std::chrono::milliseconds(50)); !polled)
      ADD_FAILURE() << polled.error().message;
  };
  if (meanwhile) {
    std::atomic<bool> done{false};
    std::thread other([&] {
      meanwhile();
      done = true;
    });
    while (!done) look();
    other.join();
  } else {
    while (!(*profiling)->ended()) look();
  }
  (*profiling)->stop();
  look();
  result.profile = each_alone((*profiling)->take());
  result.notes = (*profiling)->take_notes();
  result.unwinding = (*profiling)->unwind_counts();
  result.filtered = (*profiling)->filter_counts();
  return result;
}

Profiled profile_load(const observe::ProfilingOptions& options, Child& load) {
  std::vector<std::string> printed;
  Profiled result = profile_while(options, [&] {
    load.write("\n");
    printed = load.read_until("done");
  });
  result.printed = std::move(printed);
  return result;
}

std::string label_of(const Profile& profile, const Sample& sample, std::string_view key) {
  if (sample.labels == profile::none) return {};
  for (const profile::Label& label : profile.label_sets.at(sample.labels))
    if (label.key == key) return label.value;
  return {};
}

std::map<std::string, double> time_by(const Profile& profile, profile::Measure measure,
                                      std::string_view key) {
  std::map<std::string, double> times;
  for (const Sample& sample : profile.samples)
    if (sample.measure == measure)
      times[label_of(profile, sample, key)] += static_cast<double>(sample.value_ns);
  return times;
}

std::vector<std::string> functions_of(const Profile& profile, const Sample& sample) {
  std::vector<std::string> names;
  if (sample.stack == profile::none) return names;
  for (const profile::Index index : profile.stacks.at(sample.stack).locations) {
    const profile::Location& location = profile.locations.at(index);
    for (const profile::Line& line : location.lines)
      names.push_back(profile.functions.at(line.function).name);
    if (location.lines.empty()) names.emplace_back("?");
  }
  return names;
}

bool reaches_the_start(const Profile& profile, const Sample& sample) {
  const auto names = functions_of(profile, sample);
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    // libc has _start, __clone, __clone3 and __GI___clone3.
    const std::string spelled = bare_name(name);
    std::string_view bare = spelled;
    if (bare.starts_with("__GI_")) bare.remove_prefix(5);
    bare.remove_prefix(std::min(bare.find_first_not_of('_'), bare.size()));
    return bare == "main" || bare == "start" || bare == "clone" || bare == "clone3";
  });
}

std::string bare_name(std::string_view name) {
  // "(anonymous namespace)" is neither parameters nor part of the name.
  std::string text(name);
  for (std::size_t at; (at = text.find("(anonymous namespace)::")) != std::string::npos;)
    text.erase(at, sizeof "(anonymous namespace)::" - 1);
  text = text.substr(0, text.find_first_of("(<"));
  text.erase(text.find_last_not_of(' ') + 1);  // of perf's "name (inlined)"
  if (const auto last = text.rfind("::"); last != std::string::npos) text = text.substr(last + 2);
  return text;
}

}  // namespace vitrine::test
