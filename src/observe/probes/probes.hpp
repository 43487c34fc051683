// The probes of files and of live processes: what `vitrine probes` lists and `vitrine trace`
// attaches to.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/limits.hpp"
#include "base/result.hpp"
#include "elf/file.hpp"
#include "probe/dof_probes.hpp"
#include "probe/function_pattern.hpp"
#include "probe/probe.hpp"
#include "sandbox/files.hpp"
#include "sandbox/work_budget.hpp"
#include "symbol/debug_file.hpp"

namespace vitrine::observe {

/// A pattern of functions that selects none of a file's.
struct UnfoundFunction {
  std::string pattern;
  std::string reason;             ///< empty: there is no such name
  std::vector<std::string> near;  ///< names that are spelt alike
  std::uint64_t known = 0;        ///< functions of which the file has a name
};

/// A file, and the probes it offers.
struct ProbeFile {
  /// As the user names it; of a process, as the kernel does, without the " (deleted)" that it adds where that name is
  /// gone: what patterns name.
  std::string path;
  /// Open, whatever becomes of its name; null when it offers no probes.
  std::shared_ptr<sandbox::FileMemory> file;
  std::string build_id;  ///< lower-case hex; empty: it has none
  elf::Encoding encoding;
  Machine machine = Machine::other;
  std::vector<elf::Segment> code;          ///< what of it is loaded to be executed
  std::vector<probe::Probe> probes;        ///< by provider and name; sites by address
  std::size_t tombstones = 0;              ///< whose code the linker has left out: not listed
  std::vector<std::string> problems;       ///< what could not be used, and why; each a sentence
  bool is_module_wanted = false;           ///< a pattern of functions means this file
  std::vector<UnfoundFunction> missing{};  ///< patterns that mean it, and select nothing
};

/// A file with probes, as a process has it in memory.
struct ProbeModule {
  std::shared_ptr<const ProbeFile> file;
  Address bias = 0;  ///< added to the addresses of its sites: where they are in the process
};

struct ProcessProbes {
  std::vector<ProbeModule> modules;   ///< those with probes, by address
  std::size_t files = 0;              ///< how many were looked into
  std::size_t unread = 0;             ///< how many could not be looked into
  std::size_t left_out = 0;           ///< how many were not, as the budget was spent
  std::vector<std::string> problems;  ///< files that could not be looked into, and why
};

/// What to find out beyond what tracing needs.
struct ProbeDetail {
  bool functions = false;                        ///< Site::function: reads symbol tables
  std::vector<probe::FunctionPattern> wanted{};  ///< functions to be listed as probes
  std::size_t most = limits::traced_functions;   ///< of them, of one file
};

/// Files that were looked into already: each is read once, however many processes map it.
class ProbeFiles {
 public:
  explicit ProbeFiles(ProbeDetail detail = {}) : detail_(std::move(detail)) {}

  /// The probes of the file at `path`. Errors: not_found, not_permitted, malformed (no ELF file),
  /// unsupported (no regular file).
  Result<std::shared_ptr<const ProbeFile>> open(const std::string& path);

  /// The probes of all that a process maps to be executed: its program, libraries, and what else
  /// it loaded. Call again to see what came since. When `budget` is spent, the rest of its files is
  /// left out (ProcessProbes::left_out). Errors: not_found (no such process), not_permitted.
  Result<ProcessProbes> of_process(int pid,
                                   const sandbox::WorkBudget& budget = sandbox::WorkBudget());

 private:
  Result<std::shared_ptr<const ProbeFile>> take(sandbox::OpenedFile file, const std::string& path,
                                                std::vector<int> roots);

  ProbeDetail detail_;
  /// With where its notes are looked for: another process's debug file may be another.
  using Key = std::pair<sandbox::FileIdentity, symbol::DebugPlaces::Key>;
  std::map<Key, Result<std::shared_ptr<const ProbeFile>>> known_;
};

// Looking into one file for probes.

/// Reads the probes of an open file, which `path` names. Its notes may be in a separate debug file,
/// looked for in `places`. A worker does it. Errors: malformed (no ELF file); failed, limit (the file
/// was more than its parser could stand).
Result<ProbeFile> read_probe_file(std::shared_ptr<sandbox::FileMemory> file, std::string path,
                                  const symbol::DebugPlaces& places, const ProbeDetail& detail);

// Looking into one file without a worker.

/// A file whose probes are all in a few bytes of plain notes: nothing is compressed, described by
/// typed notes, in DOF, or in another file. A process may read it that has dropped everything else
/// (SECURITY.md); for all other files, and for names of functions, there are workers.
class PlainNotes {
 public:
  /// Reads the ELF headers, if they are small. Nothing: it is another file.
  static std::optional<PlainNotes> of(std::shared_ptr<sandbox::FileMemory> file);

  /// Reads the notes. `path`: what to call the file.
  [[nodiscard]] ProbeFile read(std::string path) const;

 private:
  PlainNotes(std::shared_ptr<sandbox::FileMemory> file, elf::File elf)
      : file_(std::move(file)), elf_(std::move(elf)) {}

  std::shared_ptr<sandbox::FileMemory> file_;
  elf::File elf_;
};

// The DOFs of a file, in full: what `vitrine usdt dump` shows.

struct DofListing {
  std::string path;           ///< as the user names it
  std::uint16_t machine = 0;  ///< EM_*
  bool relocatable = false;   ///< an object to be linked: no word is an address yet
  probe::DofFile file;
};

/// Errors: not_found, not_permitted, unsupported (no regular file), malformed (no ELF file).
Result<DofListing> list_dof(const std::string& path);

}  // namespace vitrine::observe
