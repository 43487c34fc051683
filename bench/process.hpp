// Whole processes, and what they cost.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace bench {

using Words = std::vector<std::string>;

/// What a process took.
struct Cost {
  double elapsed = 0, processor = 0;  ///< milliseconds
  long peak = 0;                      ///< KiB of memory resident at once
};

/// Runs a command to its end, its output thrown away (or written to `errors`, what it says on
/// standard error). Nullopt: it failed.
std::optional<Cost> run(const Words& words, const std::string& errors = "/dev/null");

/// Of a sample that is not empty.
double median(std::vector<double> values);

}  // namespace bench
