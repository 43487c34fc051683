// The file in which a JIT compiler names the functions that it makes: /tmp/perf-PID.map.
//
// Any user may put a file into /tmp under the name that we look for: it is believed only when it is
// an ordinary file of the very user that the process runs as.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory.hpp"
#include "base/result.hpp"
#include "sandbox/files.hpp"
#include "target/maps.hpp"
#include "target/proc_file.hpp"

namespace vitrine::target {

// The files that a process executes code of, found by its mappings: whatever loaded them.

/// A file by its device and inode: as long as it is mapped, no other has both.
struct MappedFile {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::string path;            ///< as the kernel names it, " (deleted)" included
  std::vector<Mapping> parts;  ///< its executable mappings, by address
};

/// All executable mappings, those without a file too, by address. `proc_dir`: descriptor of
/// /proc/PID. Errors: not_found (the process is gone), not_permitted.
Result<std::vector<Mapping>> executable_mappings(int proc_dir);

/// The files among executable mappings, by the address of their first part.
std::vector<MappedFile> files_of(const std::vector<Mapping>& mappings);

/// By the address of their first part. `proc_dir`: descriptor of /proc/PID. Errors: not_found (the
/// process is gone), not_permitted.
Result<std::vector<MappedFile>> executable_files(int proc_dir);

/// Opens a mapped file: exactly that one, deleted or in another mount namespace, or not at all.
/// Errors: not_found (unmapped meanwhile), not_permitted, unsupported (not a regular file), limit
/// (its file system does not respond: the message names the file).
Result<sandbox::OpenedFile> open_mapped(int proc_dir, const MappedFile& file);

/// The same for several files, with one exchange with the process that opens them where that can be. In their order.
std::vector<Result<sandbox::OpenedFile>> open_mapped_files(int proc_dir,
                                                           std::span<const MappedFile> files);

/// The same by its path below a root directory, of a process that may have ended. Errors: not_found
/// (also where another file is there), not_permitted, unsupported, limit.
Result<sandbox::OpenedFile> open_mapped_below(int root, const MappedFile& file);

/// The path of an open file as the kernel names it, without the " (deleted)" that the kernel adds when that name is
/// gone: a file may really be called so. `root`: descriptor of the root directory that the path is below; -1: by the
/// text alone.
std::string without_deleted(const std::string& path, int descriptor, int root);

/// The path of the executable, the same way. `link`: "exe", or that of a thread, below /proc/PID. Empty: hidden.
std::string executable_path(int proc_dir, const std::string& link = "exe");

struct PerfMapText;

/// What has been read of a perf map. A JIT compiler appends to it, but one that is started later with the same PID
/// writes another file of the same name, and some write theirs anew: then what was read is not there any more. To
/// notice that in a file of many megabytes, parts of its text are compared: 4 KiB of each 64, and the last. A file of the
/// same length that was written since it was seen is read anew in any case.
class KnownPerfMap {
 public:
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  /// `text` was read where the last ended, of the file that read_perf_map() has read of last.
  void add(std::string_view text);

 private:
  friend Result<PerfMapText> read_perf_map(int root, pid_t pid, uid_t owner, KnownPerfMap& known,
                                           std::size_t max_bytes);
  struct Part {
    std::uint64_t offset = 0;
    std::size_t bytes = 0;
    std::size_t hash = 0;
  };
  [[nodiscard]] bool is_of(Memory& file) const;

  sandbox::PlaceIdentity file_;
  sandbox::FileIdentity seen_;  ///< as it was at the last look
  std::uint64_t bytes_ = 0;     ///< from the beginning
  std::vector<Part> parts_;
  Part last_;
};

struct PerfMapText {
  std::string text;
  bool anew = false;  ///< the file is not the one that is known: this is its beginning
};

/// Reads it as the process has it: `root` is a descriptor of its root directory, `pid` its pid by
/// its own idea, `owner` the user whose files it makes. What follows `known` is read, `max_bytes` at
/// most; of a file that does not begin with that, its beginning, and `known` is nothing then. Errors:
/// not_found (it has none), not_permitted (it belongs to another user: the message names it),
/// unsupported (no regular file), failed.
Result<PerfMapText> read_perf_map(int root, pid_t pid, uid_t owner, KnownPerfMap& known,
                                  std::size_t max_bytes);

}  // namespace vitrine::target
