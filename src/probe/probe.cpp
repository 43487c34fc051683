#include "probe/probe.hpp"

#include <fnmatch.h>

#include <algorithm>

#include "probe/function_pattern.hpp"

namespace vitrine::probe {
namespace {

/// C strings end at the first NUL, and names of probes are C strings in their notes.
bool glob(const std::string& pattern, const std::string& text) {
  return ::fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

}  // namespace

std::string canonical_name(std::string_view name) {
  std::string canonical;
  for (std::size_t at = 0; at < name.size(); ++at) {
    const bool dash = name.substr(at, 2) == "__";
    canonical += dash ? '-' : name[at];
    if (dash) ++at;
  }
  return canonical;
}

Pattern::Pattern(std::string_view text) {
  if (is_function_pattern(text)) function_ = text;
  text_ = text;
  const std::size_t colon = text.find(':');
  provider_ = colon == text.npos ? "*" : text.substr(0, colon);
  name_ = colon == text.npos ? text : text.substr(colon + 1);
}

bool Pattern::matches(const Probe& probe, int process) const {
  if (!function_.empty() || probe.kind == Kind::function)
    return std::find(probe.patterns.begin(), probe.patterns.end(), function_) !=
           probe.patterns.end();
  if (text_ == probe.name || text_ == probe.provider + ':' + probe.name) return true;
  if (!glob(name_, probe.name) && !glob(canonical_name(name_), canonical_name(probe.name)))
    return false;
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
