// What must be true of a live process before its labels can be read at all.
#include <fmt/format.h>

#include <algorithm>

#include "check/live_subject.hpp"
#include "check/rules.hpp"

namespace vitrine::check {
namespace {

Answer located(const ProcessSubject& subject, Profiles profiles) {
  if (subject.expected.common(profiles).empty()) return does_not_apply("none is expected");
  const auto found =
      std::ranges::find_if(subject.definitions, [&](const observe::DefinitionInfo& one) {
        const auto profile = profile_of(one.format);
        return profile && profiles.has(*profile);
      });
  if (found != subject.definitions.end())
    return holds(fmt::format("{} of {}", found->location, found->module));
  if (!subject.reader_problem.empty()) return fails(subject.reader_problem);
  return fails("no reader would find it");
}

Answer in_force(const ProcessSubject& subject, Profiles profiles) {
  std::size_t readings = 0, labelled = 0, unproven = 0;
  for (const auto& [profile, seen] : subject.readings) {
    if (!profiles.has(profile)) continue;
    readings += seen.readings;
    labelled += seen.in_force;
    unproven += seen.unproven;
  }
  if (readings == 0 && unproven == 0) return does_not_apply("no thread could be read");
  const auto text =
      fmt::format("{} of {} readings; {} more could not be proven", labelled, readings, unproven);
  return labelled != 0
             ? holds(text)
             : undecided(text, "check while the program works, or with a longer --duration");
}

Answer labels_located(const ProcessSubject& subject) {
  return located(subject, labels_profiles);
}

Answer labels_in_force(const ProcessSubject& subject) {
  return in_force(subject, labels_profiles);
}

Answer records_located(const ProcessSubject& subject) {
  return located(subject, otep_4947);
}

Answer records_in_force(const ProcessSubject& subject) {
  return in_force(subject, otep_4947);
}

constexpr Rule<ProcessSubject> process_table[] = {
    {{"labels.located", labels_profiles, required,
      "The slot can be located in each thread of the running process",
      "custom-labels-v1.md: Exposed symbols", "see the rules for the file that defines it", "all"},
     labels_located},
    {{"labels.in-force", labels_profiles, Weight::advised,
      "Threads had labels in force during the observation", "custom-labels-v1.md",
      "put labels in force around work", ""},
     labels_in_force},
    {{"otep-4947.located", otep_4947, required,
      "The slot can be located in each thread of the running process",
      "OTEP-4947: TLS access models that readers support",
      "see the rules for the file that defines it", "all"},
     records_located},
    {{"otep-4947.in-force", otep_4947, Weight::advised,
      "Threads had a record in force during the observation", "OTEP-4947",
      "put a record in force around work", ""},
     records_in_force},
};

}  // namespace

std::span<const Rule<ProcessSubject>> process_rules() {
  return process_table;
}

}  // namespace vitrine::check
