// What the rules about readings ask, of whichever format.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "check/rule.hpp"

namespace vitrine::check {

/// What the decoder found against `rule`; nullopt: nothing.
inline std::optional<Breach> first_defect(const observe::ThreadLabels& reading,
                                          format::SetRule rule) {
  if (!reading.set) return std::nullopt;
  const auto& defects = reading.set->defects;
  const auto found =
      std::ranges::find_if(defects, [&](const format::Defect& one) { return one.rule == rule; });
  return found == defects.end() ? std::nullopt : std::optional<Breach>(found->text);
}

/// Why the thread's labels could not be read, by its publisher's fault.
inline std::optional<Breach> unreadable(const observe::ThreadLabels& reading) {
  if (reading.set || reading.set.error().code != ErrorCode::malformed) return std::nullopt;
  return reading.set.error().message;
}

/// What a limit cut.
inline std::optional<Breach> cut(const observe::ThreadLabels& reading) {
  if (!reading.set || reading.set->truncated.empty()) return std::nullopt;
  return reading.set->truncated.front().what + ": " + reading.set->truncated.front().detail;
}

}  // namespace vitrine::check
