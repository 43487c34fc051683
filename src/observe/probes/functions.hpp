// Functions as probes: "func:libc:malloc" is found in the symbols of a file, and its parameters in
// its debug information.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "observe/probes/probes.hpp"
#include "probe/function_pattern.hpp"

namespace vitrine::observe {

/// Those of the texts that are patterns of functions. Errors: usage.
Result<std::vector<probe::FunctionPattern>> function_patterns(std::span<const std::string> texts);

/// The files that patterns mean where no process is given: a path, a program in PATH, or a library
/// in the directories of the system. Errors: not_found; usage (no pattern of a function, or a
/// module with wildcards).
Result<std::vector<std::string>> files_of_functions(std::span<const std::string> patterns);

/// Adds the functions of a file that patterns select to its probes, each as one of its own; and why
/// others select nothing. Errors: those of symbol::find_functions; limit (too many functions).
Result<void> add_functions(ProbeFile& file, const sandbox::FileMemory& memory,
                           std::span<const probe::FunctionPattern> patterns,
                           const symbol::DebugPlaces& places, std::size_t most);

/// What is known of patterns that have selected nothing, from all files that were looked into.
class MissingFunctions {
 public:
  void add(const ProbeFile& file);

  /// Of a pattern; `where`: what was looked into.
  [[nodiscard]] Error explain(const std::string& pattern, const std::string& where) const;

 private:
  struct Reason {
    std::string file;
    UnfoundFunction function;
  };
  std::map<std::string, std::vector<Reason>> reasons_;
  std::set<std::string> modules_;  ///< names of files
};

}  // namespace vitrine::observe
