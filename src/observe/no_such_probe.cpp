#include "observe/no_such_probe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "observe/spelling.hpp"

namespace vitrine::observe {
namespace {

constexpr std::size_t shown = 5;

std::vector<std::string> closest(const std::string& pattern, const std::set<std::string>& seen) {
  const bool whole = pattern.find(':') != std::string::npos;
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const std::string& name : seen)
    ranked.emplace_back(
        spelling_distance(pattern, whole ? std::string_view(name)
                                         : std::string_view(name).substr(name.find(':') + 1)),
        name);
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (const auto& [far, name] : ranked)
    if (names.size() < shown) names.push_back(name);
  return names;
}

}  // namespace

Error no_such_probe(const TraceOptions& options, const std::set<std::string>& seen) {
  const TraceTarget& target = options.target;
  std::string where;
  std::string argument;
  if (!target.files.empty()) {
    where = fmt::format("{}", fmt::join(target.files, ", "));
    argument = target.files.front();
  } else if (!target.pids.empty()) {
    where = fmt::format("process {}", fmt::join(target.pids, ", "));
    argument = std::to_string(target.pids.front());
  } else {
    where = target.command.front();
    argument = "FILE";
  }
  if (seen.empty())
    return {ErrorCode::failed, where + " has no probes",
            "probes are compiled in with <vitrine/sdt.h> or <sys/sdt.h>; llvm-strip and sstrip "
            "remove their notes"};
  std::vector<std::string> patterns = options.probes;
  if (const auto& reduction = options.query.reduction;
      reduction && reduction->kind == query::ReductionKind::latency)
    patterns = {reduction->start, reduction->end};
  const std::vector<std::string> names = closest(patterns.front(), seen);
  const std::size_t others = seen.size() - names.size();
  return {ErrorCode::failed,
          fmt::format("{} has no probe {}; it has {}{}", where, fmt::join(patterns, " or "),
                      fmt::join(names, ", "),
                      others == 0 ? std::string() : fmt::format(" and {} more", others)),
          fmt::format("`vitrine probes {}` lists all", argument)};
}

}  // namespace vitrine::observe
