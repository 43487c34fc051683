#include "observe/no_such_probe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <vector>

namespace vitrine::observe {
namespace {

constexpr std::size_t shown = 5;
constexpr std::size_t compared_bytes = 128;  // of a name: the work grows with the square

/// How many characters to insert, take out or exchange (Levenshtein).
std::size_t distance(std::string_view one, std::string_view other) {
  one = one.substr(0, compared_bytes);
  other = other.substr(0, compared_bytes);
  std::vector<std::size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= one.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t k = 1; k <= other.size(); ++k) {
      const std::size_t exchanged = diagonal + (one[i - 1] == other[k - 1] ? 0 : 1);
      diagonal = row[k];
      row[k] = std::min({exchanged, row[k] + 1, row[k - 1] + 1});
    }
  }
  return row.back();
}

std::vector<std::string> closest(const std::string& pattern, const std::set<std::string>& seen) {
  const bool whole = pattern.find(':') != std::string::npos;
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const std::string& name : seen)
    ranked.emplace_back(
        distance(pattern, whole ? std::string_view(name)
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
            "probes are compiled in, by <vitrine/sdt.h> or <sys/sdt.h>; llvm-strip and sstrip take "
            "their notes away"};
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
          fmt::format("`vitrine probes {}` lists them all", argument)};
}

}  // namespace vitrine::observe
