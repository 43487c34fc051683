// Process: a live process under observation, named so that it cannot be mistaken for another.
#pragma once

#include <sys/types.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "sandbox/files.hpp"
#include "target/modules.hpp"
#include "target/process_memory.hpp"
#include "target/tls_location.hpp"

namespace vitrine::target {

/// Same identity, same program image: a fork or a reused pid has another start time, an exec has
/// other random bytes (docs/formats/tls.md, "Process identity"). What was found out about a process
/// is valid for one identity.
struct Identity {
  std::uint64_t start_time = 0;              ///< of the thread group, clock ticks since boot
  Address random_address = 0;                ///< AT_RANDOM
  std::array<std::byte, 16> random_bytes{};  ///< what the kernel put there at exec

  bool operator==(const Identity&) const = default;
};

/// A process by its directory in /proc: paths below it concern this very process, never one that
/// got its pid later.
struct ProcessDirectory {
  FileDescriptor fd;
  std::string status;  ///< the text of /proc/PID/status

  /// Errors: not_found (no such process; `pid` is a thread of another), not_permitted.
  static Result<ProcessDirectory> open(pid_t pid);
};

/// That a process has ended, but its parent has not waited for it. `name`: its command's; empty: not known.
tl::unexpected<Error> zombie(pid_t pid, std::string_view name = {});

/// The auxiliary vector: what the kernel gave the program at exec. AT_* → value, last one wins.
using AuxVector = std::map<std::uint64_t, std::uint64_t>;

class Process {
 public:
  /// Opens the thread group `pid`.
  /// Errors: not_found (no such process; it has ended; `pid` is a thread of another),
  /// not_permitted (see proc_file.hpp), unsupported (kernel thread; 32-bit program),
  /// another_program (it is executing one: open it again).
  static Result<Process> open(pid_t pid);

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] int pidfd() const { return pidfd_.get(); }

  /// Descriptor of /proc/PID: paths below it concern this very process, never one that got its pid
  /// later.
  [[nodiscard]] int proc_dir() const { return proc_dir_.get(); }

  [[nodiscard]] Machine machine() const { return machine_; }
  [[nodiscard]] const Identity& identity() const { return identity_; }
  [[nodiscard]] const AuxVector& auxv() const { return auxv_; }

  /// Lives as long as this Process (also when it is moved).
  [[nodiscard]] ProcessMemory& memory() const { return *memory_; }

  /// Where its modules begin: for Modules.
  [[nodiscard]] ProgramHeaders program_headers() const;

  /// The path of its executable as the kernel reports it, without the " (deleted)" that it adds where that name is
  /// gone; if the path is hidden, /proc/PID/exe.
  [[nodiscard]] std::string executable_path() const;

  /// The executable's file, whichever name, mount namespace or fate it has now. Errors: not_found,
  /// not_permitted, limit (its file system does not respond).
  [[nodiscard]] Result<sandbox::OpenedFile> open_executable() const;

  /// Checks that this is still the process that was opened. Errors: not_found (it has ended),
  /// another_program (open it again).
  Result<void> verify();

 private:
  Process() = default;

  pid_t pid_ = 0;
  FileDescriptor pidfd_;
  FileDescriptor proc_dir_;
  Machine machine_ = Machine::x86_64;
  Identity identity_;
  AuxVector auxv_;
  std::unique_ptr<ProcessMemory> memory_;
};

}  // namespace vitrine::target
