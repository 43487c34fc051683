// FileReport: what the rules about files say of one, all of them: which are asked for, and told,
// is for who checks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file_descriptor.hpp"
#include "base/result.hpp"
#include "check/rule.hpp"

namespace vitrine::check {

struct FileReport {
  std::string path;
  Profiles published;                 ///< of which there is something that a reader could use
  Profiles intended;                  ///< those, and of which there are traces
  bool program = false;               ///< not a library
  bool nameless = false;              ///< a static program without a symbol
  std::vector<Answer> answers;        ///< one a rule of file_requirements()
  std::vector<std::string> problems;  ///< of its headers
};

/// All rules about files, in the order of their answers.
std::vector<const Requirement*> file_requirements();

/// Asks them of an open file, which its user, or a process, calls `path`. `asked_v0`: which version
/// of custom labels the user asks for. A worker does it. Errors: malformed (no ELF file),
/// unsupported (no regular file); failed, limit (the file was more than its parser could stand).
Result<FileReport> report_on(const FileDescriptor& file, const std::string& path,
                             std::optional<bool> asked_v0);

}  // namespace vitrine::check
