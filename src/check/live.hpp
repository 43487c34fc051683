// Labels under check while a process runs: what was read, and the rules for readings.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/notes.hpp"
#include "check/context.hpp"
#include "check/rule.hpp"
#include "format/unreadable.hpp"
#include "observe/labels/labels.hpp"

namespace vitrine::check {

// What was seen of the labels of a process while it ran.

/// The profile that a format follows; nullopt: none that is checked (drafts, Elastic's).
std::optional<Profile> profile_of(format::Format format);

/// Trustworthy readings of threads, and what was wrong with them.
struct LiveCount {
  std::set<int> threads;
  std::size_t readings = 0;
  std::size_t violations = 0;
  std::string example;  ///< the first violation, and in which thread
};

/// The readings of one profile.
struct ProfileReadings : LiveCount {
  std::size_t in_force = 0;  ///< with labels, or a record
  std::size_t unproven = 0;  ///< which may mix two sets: not counted
};

struct ProcessSubject {
  Redaction redaction;  ///< of examples
  std::vector<observe::DefinitionInfo> definitions;
  std::set<std::string> with_attributes;  ///< modules in whose slots a thread record had attributes
  Profiles expected;                      ///< that its files publish, or are asked to
  std::string reader_problem;  ///< why nothing could be read; empty: nothing was in the way
  Notes notes;                 ///< of the readers
  std::map<Profile, ProfileReadings> readings;
  /// Of the rules that did not always hold, for each profile.
  std::map<std::pair<const ReadingRule*, Profile>, LiveCount> broken;
};

/// Reads the labels and the context of a process for `duration`, until `stop`. `sample`: the second
/// half in the interrupt of running threads, where that is allowed. What could not be done is
/// reported in the subject. Errors: not_found (the process is gone), not_permitted.
Result<void> watch(target::Process& process, ContextWatch& context, ProcessSubject& into,
                   std::chrono::milliseconds duration, bool sample, const std::atomic<bool>* stop);

// What the rules about readings ask, of whichever format.

/// What the decoder found against `rule`; nullopt: nothing.
inline std::optional<Breach> first_defect(const observe::ThreadLabels& reading,
                                          format::SetRule rule) {
  if (!reading.set) return std::nullopt;
  const auto& defects = reading.set->defects;
  const auto found =
      std::ranges::find_if(defects, [&](const format::Defect& one) { return one.rule == rule; });
  return found == defects.end() ? std::nullopt : std::optional<Breach>(found->text);
}

/// The first truncation that `is` that.
template <class Is>
std::optional<Breach> first_cut(const observe::ThreadLabels& reading, Is is) {
  if (!reading.set) return std::nullopt;
  const auto& all = reading.set->truncated;
  const auto found = std::ranges::find_if(all, is);
  return found == all.end() ? std::nullopt
                            : std::optional<Breach>(found->what + ": " + found->detail);
}

/// What of `what` is not there, though its publisher counts it.
inline std::optional<Breach> unreadable_part(const observe::ThreadLabels& reading,
                                             std::string_view what) {
  return first_cut(reading, [&](const format::Truncation& one) {
    return one.what == what && format::is_unreadable(one);
  });
}

/// Why the thread's labels could not be read, or not all of them, by its publisher's fault.
inline std::optional<Breach> unreadable(const observe::ThreadLabels& reading) {
  if (!reading.set && reading.set.error().code == ErrorCode::malformed)
    return reading.set.error().message;
  const auto entries = unreadable_part(reading, "labels");
  return entries ? entries : unreadable_part(reading, "attributes");
}

/// What a limit cut.
inline std::optional<Breach> cut(const observe::ThreadLabels& reading) {
  return first_cut(reading,
                   [](const format::Truncation& one) { return !format::is_unreadable(one); });
}

}  // namespace vitrine::check
