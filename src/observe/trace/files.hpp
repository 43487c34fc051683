// The files of a trace: which of a process's are chosen, and processes that use another file of a path.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "observe/probes/probes.hpp"

namespace vitrine::observe {

/// The files of a process that --module chooses; without patterns all.
class ModuleChoice {
 public:
  /// A pattern is of the whole path or of the file's name.
  explicit ModuleChoice(std::vector<std::string> patterns) : patterns_(std::move(patterns)) {}

  /// Whether a file is chosen, which its patterns remember.
  bool takes(const std::string& path);
  /// The patterns that no file has matched.
  [[nodiscard]] std::vector<std::string> absent() const;

 private:
  std::vector<std::string> patterns_;
  std::set<std::string> matched_;
};

/// Reports processes that use `path` as it was before an update replaced the file: uprobes are of the
/// file. Nullopt: none is known. Reads /proc; asks no file server.
std::optional<std::string> processes_with_replaced_file(const ProbeFile& file,
                                                        const std::string& path);

}  // namespace vitrine::observe
