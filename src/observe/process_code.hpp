// What code a process has: its executable mappings, each with the rules of how to leave it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "file/file_memory.hpp"
#include "observe/file_rules.hpp"
#include "target/maps.hpp"
#include "unwind/code_map.hpp"

namespace vitrine::observe {

/// A file with code. It stays open as long as somebody has this: it may be deleted meanwhile.
struct CodeFile {
  std::string name;  ///< as the process in which it was seen first has it; "[vdso]"
  std::shared_ptr<file::FileMemory> file;  ///< null: it could not be opened
  std::shared_ptr<FileRules> rules;        ///< null: it could not be parsed
};

struct ProcessCode {
  unwind::CodeMap map;
  // What each region of `map` is a mapping of, in the same order, and the file; null: in none.
  std::vector<target::Mapping> mappings;
  std::vector<std::shared_ptr<const CodeFile>> files;
};

/// Reads it of many processes: what they share is opened once. Not thread-safe, as the rules are
/// not; forks.
class CodeReader {
 public:
  explicit CodeReader(const RuleLimits& limits = {}) : rules_(RuleWorker::make(limits)) {}

  /// `proc_dir`: descriptor of /proc/PID. A file that cannot be read costs its own rules: see
  /// `problems`. Errors: not_found (the process is gone), not_permitted.
  Result<ProcessCode> read(int proc_dir);

  /// Forgets the files that no ProcessCode has any more.
  void forget_unused();

  /// Files without rules, and why; each once, as a sentence. Some come while stacks are unwound.
  [[nodiscard]] const std::vector<std::string>& problems() const { return rules_->problems(); }

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;  // device, inode

  using File = std::shared_ptr<const CodeFile>;

  File file_of(int proc_dir, const target::Mapping& mapping);
  File open(int proc_dir, const target::Mapping& mapping);
  File made_of(const std::string& name, Result<std::unique_ptr<file::FileMemory>> file);

  std::shared_ptr<RuleWorker> rules_;
  std::map<Key, File> files_;
  File vdso_;  // the kernel has one for all processes of a machine
};

}  // namespace vitrine::observe
