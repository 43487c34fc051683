// What the words of a command line about probes mean: processes, files, patterns.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "probe/pattern.hpp"

namespace vitrine::cli {

struct ProbeTarget {
  int pid = 0;       ///< 0: a file
  std::string path;  ///< of a file
};

struct ProbeWords {
  std::vector<ProbeTarget> targets;  ///< at least one
  std::vector<probe::Pattern> patterns;
};

/// Digits are a process; what has a slash, or is the name of a file here, is a file; what has a
/// colon or a wildcard, a pattern; anything else the name of a program in PATH. Errors: usage (no
/// target), not_found (no such file or program).
Result<ProbeWords> parse_targets(std::span<const std::string> words);

}  // namespace vitrine::cli
