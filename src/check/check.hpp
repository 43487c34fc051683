// vitrine check: which rules hold for files and processes.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/file_descriptor.hpp"
#include "base/redaction.hpp"
#include "base/result.hpp"
#include "check/rule.hpp"

namespace vitrine::check {

// FileReport: what the rules about files find in one, all of them: which are asked for, and
// reported, is for the checker.

struct FileReport {
  std::string path;
  Profiles published;                 ///< of which there is something that a reader could use
  Profiles intended;                  ///< those, and of which there are traces
  bool program = false;               ///< not a library
  bool nameless = false;              ///< a static program without a symbol
  std::vector<Outcome> outcomes;      ///< one a rule of file_requirements()
  std::vector<std::string> problems;  ///< of its headers
};

/// All rules about files, in the order of their outcomes.
std::vector<const Requirement*> file_requirements();

/// Asks them of an open file, which its user, or a process, calls `path`. `asked_v0`: which version
/// of custom labels the user asks for. A worker does it. Errors: malformed (no ELF file),
/// unsupported (no regular file); failed, limit (the file was more than its parser could stand).
Result<FileReport> report_on(const FileDescriptor& file, const std::string& path,
                             std::optional<bool> asked_v0);

// vitrine check: whether files and processes publish as the documents and the known readers need it.

/// Counts of readings of threads.
struct Readings {
  std::size_t threads = 0;  ///< that were read
  std::size_t readings = 0;
  std::size_t violations = 0;
  std::string example;  ///< the first; empty: there is none
};

/// One rule, asked of one file or process.
struct Finding {
  const Requirement* rule = nullptr;
  std::string subject;  ///< path of a file; empty: the process itself
  Outcome outcome;      ///< its remedy is set where the rule does not hold, or is undecided
  std::optional<Readings> readings;

  [[nodiscard]] bool fails() const { return outcome.verdict == Verdict::fails; }
};

struct Report {
  std::string target;  ///< the file's path, or "process 42 (name)"
  int pid = 0;         ///< 0: a file
  std::vector<Finding> findings;
  Profiles checked;       ///< for which something was published, seemed to be, or was asked
  std::size_t files = 0;  ///< that were looked into
  std::vector<std::string> unread;  ///< files that could not be looked into, and why
  std::vector<std::string> notes;   ///< what else to know of the outcomes
};

struct Options {
  Profiles profiles = every_profile;         ///< which to check, of those that there is anything of
  Profiles claimed;                          ///< which to check in any case: the user declares them
  std::chrono::milliseconds duration{2000};  ///< of looking at a process
  bool sample = true;                        ///< take samples of running threads, too
  Redaction redaction;                       ///< of values in what is reported
  const std::atomic<bool>* stop = nullptr;
};

/// Errors: not_found, not_permitted, unsupported (no regular file), malformed (no ELF file).
Result<Report> check_file(const std::string& path, const Options& options);

/// Errors: not_found (no such process, or it ended), not_permitted, unsupported (a kernel thread, a
/// 32-bit program), interrupted (it executed another program).
Result<Report> check_process(int pid, const Options& options);

}  // namespace vitrine::check
