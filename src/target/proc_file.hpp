// Reading the kernel's text files about a process.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.hpp"
#include "base/result.hpp"
#include "sandbox/files.hpp"

namespace vitrine::target {

using sandbox::open_at;
using sandbox::place_identity;
using vitrine::FileDescriptor;

/// Enough for every file of /proc/PID that is a line or a table of fields.
inline constexpr std::size_t proc_file_bytes = 16 * 1024;

/// The file's content, at most `limit` bytes of it. Errors as open_at.
Result<std::string> read_file_at(int dir, const std::string& path, std::size_t limit);

// Some files of /proc/PID take locks of the process to open or to read: maps, smaps, auxv, cmdline,
// environ, mem, map_files, stat, syscall, stack (exec_update_lock, mmap_lock). A target holds those for as
// long as it likes, with a file on a file system of its own: closed by an exec, or mapped and
// unmapped. A reader that waits for them ends when it is killed, and no sooner. So these files are
// read by a process that can be (MemoryReader). The other files that we read take no such lock.

/// Such a file, piece by piece; ends when `each` returns false. It may not read any other meanwhile.
/// `dir`: a descriptor. Errors: as open_at; limit (the kernel withholds it, or no process can be
/// made that reads it).
Result<void> read_blocking_at(int dir, const std::string& path,
                              const std::function<bool(std::string_view)>& each);

/// Its content, at most `limit` bytes of it.
Result<std::string> read_blocking_at(int dir, const std::string& path, std::size_t limit);

/// That /proc is of vitrine's PID namespace. After `unshare --pid`, or `nsenter --pid` without --mount, it is that of
/// another one, and its numbers are those of other processes. Errors: unsupported.
Result<void> require_own_proc();

/// The processes that /proc shows, by number. Errors: failed, and as require_own_proc().
Result<std::vector<pid_t>> all_processes();

/// What we use of /proc/PID/stat and /proc/PID/task/TID/stat.
struct Stat {
  std::string comm;              ///< any bytes but NUL, at most 15 of them (kernel threads: more)
  char state = '?';              ///< R, S, D, Z, T, t, X, …
  std::uint64_t flags = 0;       ///< PF_* of the kernel
  std::uint64_t start_time = 0;  ///< clock ticks since boot; with the id, names one thread for ever
  /// Where the kernel put argc, the arguments and the auxiliary vector; 0: not for us to know.
  std::uint64_t stack_start = 0;
  std::uint64_t code_start = 0;  ///< of the program's code; 1: not for us to know
  std::uint64_t code_end = 0;

  /// A thread of the kernel: it has no user memory.
  [[nodiscard]] bool kernel_thread() const { return (flags & 0x00200000) != 0; }  // PF_KTHREAD
};

/// Parses a stat line. The comm may itself hold ") " and digits, so it ends at the last ')'.
/// Errors: malformed.
Result<Stat> parse_stat(std::string_view line);

/// The text after "Name:" of a status file, without leading blanks; nullopt when there is none.
std::optional<std::string_view> status_field(std::string_view status, std::string_view name);

// Why the kernel refused to show us a process, and what would change its mind.

/// The error for "`doing` process `pid`" after EPERM or EACCES: names the owner, the yama setting
/// or the capability that is missing (ptrace(2), "Ptrace access mode checking"). `proc_dir`:
/// descriptor of /proc/PID.
Error access_refused(pid_t pid, int proc_dir, const char* doing);

/// The error for a process that exists, but that /proc does not show (hidepid=2 or ptraceable, proc(5)).
Error hidden_by_proc(pid_t pid);

/// kernel.yama.ptrace_scope; 0: there is no such thing.
int yama_scope();

/// Whether we have a capability (CAP_* of linux/capability.h) in effect.
bool effective_capability(int capability);

// Which program a process executes, as the kernel's side of a trace names it.

/// vitrine_image_of (bpf/wire/wire.h) of the process whose /proc/PID directory this is; 0: it is gone, or
/// that is not for us to know.
std::uint64_t program_image(int proc_dir);

/// What a process is in its own namespaces, as files that it writes have it.
struct InnerIdentity {
  pid_t pid = 0;  ///< in its own pid namespace; 0: not known
  uid_t owner = ~uid_t{0};
};

/// Of the process whose /proc/PID directory this is; what cannot be read stays unknown.
InnerIdentity read_inner_identity(int proc_dir);

}  // namespace vitrine::target
