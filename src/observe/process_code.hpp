// What code a process has: its executable mappings, each with the rules of how to leave it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "target/maps.hpp"
#include "unwind/code_map.hpp"

namespace vitrine::observe {

struct ProcessCode {
  unwind::CodeMap map;
  /// What each region of `map` is a mapping of, in the same order.
  std::vector<target::Mapping> mappings;
};

/// Reads it of many processes: what they share is opened once. Not thread-safe, as the tables are
/// not.
class CodeReader {
 public:
  /// `proc_dir`: descriptor of /proc/PID. A file that cannot be read costs its own rules: see
  /// `problems`. Errors: not_found (the process is gone), not_permitted.
  Result<ProcessCode> read(int proc_dir);

  /// Forgets the tables that no CodeMap has any more.
  void forget_unused();

  /// Files without rules, and why; each once, as a sentence.
  [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;  // device, inode

  std::shared_ptr<unwind::FrameTable> table_of(int proc_dir, const target::Mapping& mapping);
  std::shared_ptr<unwind::FrameTable> keep(const std::string& name,
                                           Result<std::shared_ptr<unwind::FrameTable>> table);

  std::map<Key, std::shared_ptr<unwind::FrameTable>> tables_;  // null: could not be read
  std::shared_ptr<unwind::FrameTable> vdso_;  // the kernel has one for all processes of a machine
  std::vector<std::string> problems_;
};

}  // namespace vitrine::observe
