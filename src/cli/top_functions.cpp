#include "cli/top_functions.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

namespace vitrine::cli {
namespace {

using profile::none;

/// What a place is called where no function is known.
std::string_view fallback(const profile::Profile& profile, const profile::Location& location) {
  if (location.mapping == none) return "(unknown)";
  const std::string_view file = profile.mappings[location.mapping].file;
  return file.substr(file.rfind('/') + 1);
}

}  // namespace

std::vector<FunctionTime> top_functions(const profile::Profile& profile, profile::Measure measure) {
  std::map<std::string_view, FunctionTime> functions;
  std::set<std::string_view> on_stack;
  for (const profile::Sample& sample : profile.samples) {
    if (sample.measure != measure) continue;
    on_stack.clear();
    bool own = false;
    const auto spend = [&](std::string_view name, bool may_own) {
      FunctionTime& function = functions[name];
      if (on_stack.insert(name).second) function.all_ns += sample.value_ns;
      if (!own && may_own) function.own_ns += sample.value_ns, own = true;
    };
    for (const profile::Index at : profile.stacks[sample.stack].locations) {
      const profile::Location& location = profile.locations[at];
      // What waits does so in the scheduler: who called for it tells more.
      const bool may_own =
          measure == profile::Measure::on_cpu || location.kind != profile::FrameKind::kernel;
      if (location.lines.empty()) spend(fallback(profile, location), may_own);
      for (const profile::Line& line : location.lines)
        spend(profile.functions[line.function].name, may_own);
    }
  }
  std::vector<FunctionTime> sorted;
  for (auto& [name, function] : functions) {
    function.name = name;
    sorted.push_back(std::move(function));
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.own_ns > b.own_ns; });
  return sorted;
}

}  // namespace vitrine::cli
