#include "probe/probe.hpp"

#include <fnmatch.h>

#include <algorithm>

namespace vitrine::probe {
namespace {

/// C strings end at the first NUL, and names of probes are C strings in their notes.
bool glob(const std::string& pattern, const std::string& text) {
  return ::fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

}  // namespace

Pattern::Pattern(std::string_view text) {
  const std::size_t colon = text.find(':');
  provider_ = colon == text.npos ? "*" : text.substr(0, colon);
  name_ = colon == text.npos ? text : text.substr(colon + 1);
}

bool Pattern::matches(const Probe& probe, int process) const {
  if (!glob(name_, probe.name)) return false;
  return glob(provider_, probe.provider) || (process != 0 && probe.kind == Kind::dof &&
                                             glob(provider_, instance_name(probe, process)));
}

bool selected(const Probe& probe, std::span<const Pattern> patterns, int process) {
  return patterns.empty() ||
         std::any_of(patterns.begin(), patterns.end(),
                     [&](const Pattern& pattern) { return pattern.matches(probe, process); });
}

std::string instance_name(const Probe& probe, int process) {
  return probe.provider + std::to_string(process);
}

}  // namespace vitrine::probe
