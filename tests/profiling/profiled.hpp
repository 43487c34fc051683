// Profiles of live programs, and looking at them.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "observe/profile/profiling.hpp"
#include "support/child.hpp"

namespace vitrine::test {

struct Profiled {
  profile::Profile profile;  ///< what the kernel added up is so many samples
  std::vector<std::string> notes;
  observe::UnwindCounts unwinding;
  observe::FilterCounts filtered;
  std::vector<std::string> printed;  ///< by the load of profile_load()
};

/// Time off the CPU alone.
observe::ProfilingOptions options_of_waits(pid_t pid);

/// Profiles while `meanwhile` runs, in a thread of its own; without it, until all that is profiled
/// has ended. Fails the test, and returns nothing in
/// it, when profiling cannot begin.
Profiled profile_while(const observe::ProfilingOptions& options,
                       const std::function<void()>& meanwhile = {});

/// Profiles from the line that `load` waits for until it prints "done".
Profiled profile_load(const observe::ProfilingOptions& options, Child& load);

/// The label's value; empty: none.
std::string label_of(const profile::Profile& profile, const profile::Sample& sample,
                     std::string_view key);

/// Nanoseconds of one measure by the value of a label.
std::map<std::string, double> time_by(const profile::Profile& profile, profile::Measure measure,
                                      std::string_view key);

/// The functions of a sample's stack, the leaf first, inlined ones too; "?" where there is no name.
std::vector<std::string> functions_of(const profile::Profile& profile,
                                      const profile::Sample& sample);

/// Whether a stack goes back to where its thread began: a function called _start, main, or clone in
/// one of its spellings.
bool reaches_the_start(const profile::Profile& profile, const profile::Sample& sample);

/// A function's name without its parameters, namespaces and template arguments.
std::string bare_name(std::string_view name);

}  // namespace vitrine::test
