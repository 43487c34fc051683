// What code a process has: its executable mappings, each with the rules of how to leave it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "bpf/wire/event.h"
#include "observe/process/facts.hpp"
#include "observe/profile/file_rules.hpp"
#include "profile/profile.hpp"
#include "sandbox/files.hpp"
#include "symbol/jit_symbols.hpp"
#include "target/maps.hpp"
#include "target/proc_file.hpp"
#include "unwind/frame.hpp"
#include "unwind/unwinder.hpp"

namespace vitrine::observe {

/// A file with code. It stays open as long as somebody has this: it may be deleted meanwhile.
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

/// A file of the Go tool chain that calls the vdso on another stack.
struct GoFile {
  std::shared_ptr<const sandbox::FileMemory> file;
  symbol::GoVdsoCall call;
};

/// Reads it of many processes: what they share is opened once. Not thread-safe, as the rules are
/// not; forks.
class CodeReader {
 public:
  explicit CodeReader(const RuleLimits& limits = {}) : rules_(RuleWorker::make(limits)) {}

  /// `proc_dir`: descriptor of /proc/PID. A file that cannot be read costs its own rules: see
  /// `problems`. `before`, `files`: what was read of the same process last: a mapping that it still
  /// has is not opened again. Errors: not_found (the process is gone), not_permitted.
  Result<ProcessCode> read(int proc_dir, std::span<const target::Mapping> before = {},
                           std::span<const std::shared_ptr<const CodeFile>> files = {});

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
    /// maps shows it by that device and inode, too, as on most file systems: who maps those, maps
    /// this. (On btrfs and overlayfs two files may look alike in maps.)
    bool as_in_maps = false;
  };

  File file_of(int proc_dir, const target::Mapping& mapping);
  File vdso_of(int proc_dir, const target::Mapping& mapping);
  OpenedFile open(int proc_dir, const target::Mapping& mapping);
  const File& up_to_date(File& code);
  File made_of(const std::string& name, OpenedFile file);

  std::shared_ptr<RuleWorker> rules_;
  std::map<Key, Shared> files_;
  std::vector<GoFile> go_files_;
  File vdso_;  // the kernel's; a process that has changed its own has another
};

// SampledProgram: a process while it executes one program, as its samples need it.

struct SampledProgram {
  pid_t pid = 0;            ///< in our pid namespace; 0: not visible there
  std::uint64_t image = 0;  ///< program_image; 0: not known
  ProcessFacts facts;
  target::FileDescriptor proc_dir;  ///< none: it was gone before it could be looked at
  target::FileDescriptor root;      ///< of its mount namespace, O_PATH

  unwind::Unwinder unwinder{unwind::CodeMap()};
  std::vector<target::Mapping> mappings;  ///< of each region of the unwinder's map
  std::uint64_t version = 0;              ///< of the mappings: how often they were read anew
  std::vector<std::shared_ptr<const CodeFile>> files;
  symbol::JitSymbols made;  ///< of ProfileNames

  // Of ProfileBuilder:
  std::uint64_t generation = 0;                 ///< of the table that the indices are of
  profile::Index index = profile::none;         ///< of the process
  std::vector<profile::Index> mapping_indices;  ///< of each region

  // Of SampledPrograms:
  std::chrono::steady_clock::time_point read_at{};
  std::chrono::milliseconds budget{};  ///< until an unknown address makes us look again
  bool stale = false;                  ///< it has mapped something since
  bool sampled = true;                 ///< since the last tidy()
  bool gone = false;                   ///< at the last tidy()
};

/// What a process executes, the newest first, and what it executed before: samples of that may come
/// late. The part of its ObservedProcess that SampledPrograms needs.
using ProgramHistory = std::deque<std::shared_ptr<SampledProgram>>;

/// Keeps the histories of processes up to date.
class SampledPrograms {
 public:
  using Program = std::shared_ptr<SampledProgram>;

  /// That of a sample. Looks at the process if its program is not known, or has mapped something.
  /// `has_pid`: the process still has its PID.
  Program of(const vitrine_event_header& moment, ProgramHistory& its, bool has_pid);

  /// An address was where the program has no code. Returns whether it has more code now.
  bool look_again(SampledProgram& program);

  /// Now, as it may be gone when its first sample comes.
  void look_at(pid_t pid, ProgramHistory& its);
  /// That of a process that another one, with the history `parent`, has just forked.
  static ProgramHistory forked(pid_t child, const ProgramHistory& parent);
  static void mapped(ProgramHistory& its);

  // Between profiles:

  /// Learns anew what the process says of itself. Returns whether it has ended, though no event
  /// said so, or not in time.
  static bool tidy(ProgramHistory& its);
  /// Forgets files that nobody has mapped any more.
  void forget_unused() { reader_.forget_unused(); }

  /// Of the code that was read since the last call.
  [[nodiscard]] std::vector<GoFile> take_go_files() { return reader_.take_go_files(); }

  /// Why some of what is known is less than it could be, each once.
  [[nodiscard]] std::vector<std::string> take_problems();

 private:
  Program read(pid_t pid);
  bool refresh(SampledProgram& program);

  CodeReader reader_;
  std::set<std::string> refusals_;
  std::size_t reported_ = 0;  // of the reader's problems
};

}  // namespace vitrine::observe
