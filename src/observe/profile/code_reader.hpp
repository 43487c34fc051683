// What code a process has: its executable mappings, each with the rules of how to leave it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "observe/profile/file_rules.hpp"
#include "sandbox/files.hpp"
#include "target/maps.hpp"
#include "unwind/frame.hpp"

namespace vitrine::observe {

/// A file with code. It stays open as long as this exists: it may be deleted meanwhile.
struct CodeFile {
  std::string name;  ///< as the process in which it was seen first has it; "[vdso]"
  std::shared_ptr<sandbox::FileMemory> file;  ///< null: it could not be opened
  std::shared_ptr<FileRules> rules;           ///< null: it could not be parsed
};

struct ProcessCode {
  unwind::CodeMap map;
  // What each region of `map` is a mapping of, in the same order, and the file; null: in none.
  std::vector<target::Mapping> mappings;
  std::vector<std::shared_ptr<const CodeFile>> files;
};

/// A file of the Go tool chain, whose threads have two stacks.
struct GoFile {
  std::shared_ptr<const sandbox::FileMemory> file;
  unwind::GoThread thread;
};

/// Where the files of a process are looked for: descriptors, -1: none.
struct CodePlaces {
  int proc_dir = -1;  ///< /proc/PID
  int root = -1;      ///< its root directory, or another one in which it may have the same files
};

/// Reads it of many processes: what they share is opened once. Not thread-safe, as the rules are
/// not; forks.
class CodeReader {
 public:
  /// `shares_worker`: as RuleWorker::make.
  explicit CodeReader(const RuleLimits& limits = {}, bool shares_worker = false)
      : rules_(RuleWorker::make(limits, shares_worker)) {}

  /// `proc_dir`: descriptor of /proc/PID. A file that cannot be read costs its own rules: see
  /// `problems`. `before`, `files`: what was read of the same process last: a mapping that it still
  /// has is not opened again. Errors: not_found (the process is gone), not_permitted.
  /// `read_ns`: gets when the mappings had been read; files are opened afterwards.
  Result<ProcessCode> read(int proc_dir, std::span<const target::Mapping> before = {},
                           std::span<const std::shared_ptr<const CodeFile>> files = {},
                           std::uint64_t* read_ns = nullptr);

  /// The same after what a process has mapped since, in order; `map`, `mappings` and `files` are what
  /// it had. nullopt: it had that already.
  std::optional<ProcessCode> with(const unwind::CodeMap& map,
                                  std::span<const target::Mapping> mappings,
                                  std::span<const std::shared_ptr<const CodeFile>> files,
                                  std::span<const target::Mapping* const> mapped,
                                  const CodePlaces& places);

  /// Forgets the files that no ProcessCode has any more.
  void forget_unused();

  /// Those opened since the last call.
  [[nodiscard]] std::vector<GoFile> take_go_files() { return std::exchange(go_files_, {}); }

  /// Files without rules, and why; each once, as a sentence. Some come while stacks are unwound.
  [[nodiscard]] const std::vector<std::string>& problems() const { return rules_->problems(); }

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;  // device, inode

  using File = std::shared_ptr<const CodeFile>;
  using OpenedFile = Result<std::unique_ptr<sandbox::FileMemory>>;

  /// A file that processes share, by what was really opened.
  struct Shared {
    File code;
    /// maps shows it by that device and inode, too, as on most file systems: a process that maps those, maps
    /// this. (On btrfs and overlayfs two files may look alike in maps.)
    bool as_in_maps = false;
  };

  File file_of(const CodePlaces& places, const target::Mapping& mapping);
  File vdso_of(int proc_dir, const target::Mapping& mapping);
  File vdso_of_kernel(const target::Mapping& mapping);
  void open_ahead(int proc_dir, std::span<const target::Mapping> mappings,
                  std::span<const File> known);
  OpenedFile open(const CodePlaces& places, const target::Mapping& mapping);
  const File& up_to_date(File& code);
  File made_of(const std::string& name, OpenedFile file);

  std::shared_ptr<RuleWorker> rules_;
  std::map<Key, Shared> files_;
  std::map<Key, Result<sandbox::OpenedFile>> ahead_;  ///< of the process that is read, by its maps
  std::vector<GoFile> go_files_;
  File vdso_;  // the kernel's; a process that has changed its own has another
};

}  // namespace vitrine::observe
