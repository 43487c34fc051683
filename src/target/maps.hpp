// Mappings of a process: /proc/PID/maps, its flags, and queries for one address.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory.hpp"
#include "base/result.hpp"

namespace vitrine::target {

// The mappings of a process: the text of /proc/PID/maps, and finding the process context among
// them. Source: docs/formats/process-context.md, "Mapping"; proc_pid_maps(5).

/// A path as the kernel names it, without the " (deleted)" of a file that was unlinked.
inline std::string without_deleted(std::string path) {
  constexpr std::string_view deleted = " (deleted)";
  if (path.ends_with(deleted)) path.resize(path.size() - deleted.size());
  return path;
}

struct Mapping {
  Address start = 0;
  Address end = 0;  ///< one past the last byte
  bool readable = false;
  bool writable = false;
  bool executable = false;
  bool shared = false;
  std::uint64_t offset = 0;  ///< in the file, bytes
  std::uint64_t inode = 0;   ///< 0: no file
  /// Path with newlines as they are, " (deleted)" included; "[stack]", "[anon:NAME]"; or empty.
  std::string name;
  std::uint64_t device = 0;  ///< of the file, as makedev(3) writes it

  bool operator==(const Mapping&) const = default;
};

/// One line of maps, without its newline. nullopt: not such a line.
std::optional<Mapping> parse_mapping(std::string_view line);

/// Cuts text that arrives in pieces into lines. A line longer than any the kernel writes is
/// dropped, so that memory stays bounded.
class LineCutter {
 public:
  /// Calls `each(std::string_view line)` for every line that `piece` completes.
  template <class Each>
  void feed(std::string_view piece, Each each) {
    for (std::size_t end; (end = piece.find('\n')) != piece.npos; piece.remove_prefix(end + 1)) {
      if (carry_.empty() && !dropping_) {
        each(piece.substr(0, end));
      } else {
        if (keep(piece.substr(0, end))) each(std::string_view(carry_));
        carry_.clear();
        dropping_ = false;
      }
    }
    keep(piece);
  }

 private:
  bool keep(std::string_view part);

  std::string carry_;  ///< the line that is not complete yet
  bool dropping_ = false;
};

enum class QueryFilter : std::uint32_t;

/// The mappings of a process, one by one, by PROCMAP_QUERY; `path`: of maps below `proc_dir`. Ends
/// when `each` returns false. True: there are more than limits::map_lines. Errors: unsupported (not
/// known to this kernel), not_found (the process is gone), or as read_blocking_at.
Result<bool> each_mapping(int proc_dir, const std::string& path, QueryFilter filter,
                          const std::function<bool(Mapping&&)>& each);

/// A process that shows no mappings has none any more.
tl::unexpected<Error> no_memory(const std::string& path);

/// Whether a mapping of a file is writable at an address. `proc_dir`: descriptor of /proc/PID. Errors:
/// not_found (the process is gone), not_permitted.
Result<bool> is_writable_at(int proc_dir, Address address);

/// Whether this kernel supports PROCMAP_QUERY (Linux 6.11), which saves reading the text.
bool kernel_has_procmap_query();

/// Whether a mapping may hold a process context, by its name and permissions. Its signature
/// decides.
bool may_be_context(const Mapping& mapping);

struct ContextMappings {
  std::vector<Mapping> mappings;  ///< by address
  bool truncated = false;         ///< limits::context_mappings or limits::map_lines was hit
};

/// The mappings of a process that may hold its context. `proc_dir`: descriptor of /proc/PID.
/// Where the kernel can (Linux 6.11) it is asked for file mappings alone, which leaves most out;
/// the text of maps is read where it cannot, or where a context might be anonymous memory with a
/// name. Errors: not_found (the process is gone), not_permitted.
Result<ContextMappings> context_mappings(int proc_dir);

// What the kernel reports of a mapping beyond the line in /proc/PID/maps.

/// The two-letter flags (VmFlags of /proc/PID/smaps: "rd", "wr", "dc", …) of the mapping that begins
/// at `start`. `proc_dir`: descriptor of /proc/PID. Errors: not_found (no such mapping, or the
/// process is gone), not_permitted, unsupported (this kernel does not report it).
Result<std::vector<std::string>> mapping_flags(int proc_dir, Address start);

/// Among those: a fork does not copy the mapping (MADV_DONTFORK).
inline constexpr const char* flag_not_forked = "dc";

// PROCMAP_QUERY (Linux 6.11): the kernel reports single mappings, which saves reading the text of
// all.

/// Which mappings are asked for: readable ones of files, executable ones of all kinds.
enum class QueryFilter : std::uint32_t { readable, executable };

/// The kernel's structure (include/uapi/linux/fs.h of Linux 6.11), younger than Debian's headers.
struct ProcmapQuery {
  std::uint64_t size = sizeof(ProcmapQuery);
  std::uint64_t flags = 0;
  std::uint64_t address = 0;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t permissions = 0;
  std::uint64_t page_size = 0;
  std::uint64_t offset = 0;
  std::uint64_t inode = 0;
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;
  std::uint32_t name_size = 0;  ///< of the buffer; then of the name, its NUL included
  std::uint32_t build_id_size = 0;
  std::uint64_t name = 0;
  std::uint64_t build_id = 0;
};
static_assert(sizeof(ProcmapQuery) == 104);

/// Any path that can be opened, and what the kernel puts beside one.
inline constexpr std::size_t mapping_name_bytes = 4096 + 64;

/// The first such mapping that ends after `address`; `name`: mapping_name_bytes for its name. `maps`:
/// descriptor of /proc/PID/maps. 0, or errno: ENOENT (there is none), ENOTTY or EINVAL (not known to
/// this kernel), ESRCH. Async-signal-safe.
int query_mapping(int maps, Address address, QueryFilter filter, ProcmapQuery& found, char* name);

/// `name`: without its NUL.
Mapping mapping_of(const ProcmapQuery& found, std::string_view name);

}  // namespace vitrine::target
