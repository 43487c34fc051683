// The files of a trace: which of a process's are chosen, and processes that use another file of a path.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "observe/probes/probes.hpp"

namespace vitrine::observe {

/// The files of a process that --module chooses; without patterns all.
class ModuleChoice {
 public:
  /// A pattern is of the whole path or of the file's name. One that names a file is also of what that leads to
  /// (symbolic links); one that begins with ./ or ../ is below the current directory.
  explicit ModuleChoice(const std::vector<std::string>& patterns);

  /// Whether a file is chosen, which its patterns remember.
  bool takes(const std::string& path);
  /// The patterns that no file has matched.
  [[nodiscard]] std::vector<std::string> absent() const;

 private:
  struct Pattern {
    std::string text;
    std::string file;   ///< that it names; empty: none
    std::string whole;  ///< a glob, of a relative pattern
    bool matched = false;
  };

  static bool matches(const Pattern& pattern, const std::string& path);

  std::vector<Pattern> patterns_;
};

/// Reports processes that use `path` as it was before an update replaced the file: uprobes are of the
/// file. Nullopt: none is known. Reads /proc; asks no file server.
std::optional<std::string> processes_with_replaced_file(const ProbeFile& file,
                                                        const std::string& path);

}  // namespace vitrine::observe
