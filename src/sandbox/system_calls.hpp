// SystemCalls: a list of the system calls that a process may make, and the filter that holds it to
// that (seccomp(2)).
//
// A call that is not on the list fails with ENOSYS, as if this kernel did not have it. Not EPERM,
// because every libc knows a way around a call that is missing (clone3, openat2, statx, what Linux
// gets next year) and none around one that is forbidden; and the process is not killed, because a
// list that turns out too short on some machine should cost a feature there, not the
// command. What the filter is for, that code which a hostile file has taken over can do nothing
// more, is the same all three ways.
//
//   const auto filter = SystemCalls({Calls::memory, Calls::reading}).trap({"openat", "open"}).compile();
//   if (filter) filter->install();
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "base/result.hpp"

namespace vitrine::sandbox {

/// System calls by what they are for. Within each are the forms that glibc and musl use on any
/// machine, and those that they replaced: the lists are in system_calls.cpp.
enum class Calls : std::uint8_t {
  memory,     ///< memory, locks, signals to itself, time, its own ids, and to end
  reading,    ///< what is open is read, written and waited for; pipes
  files,      ///< files are looked up and opened
  changing,   ///< files are made, renamed, removed; their modes, owners and times
  threads,    ///< threads and child processes are made, limited, confined and waited for
  processes,  ///< other processes' memory, by pidfd; signals
  tracing,    ///< ptrace
  kernel,     ///< BPF and perf events
  network,    ///< sockets of any kind
  ipc,  ///< System V message queues, semaphores, shared memory: fakeroot's library asks for them
  execute,  ///< other programs
};

/// A filter that is ready: a program of classic BPF.
class Filter {
 public:
  enum class Scope : std::uint8_t { thread, process };

  /// For good: sets no_new_privs, and confines the calling thread, or all threads of the process
  /// (which must have no other filters than those that this one has). What it starts inherits that.
  /// A second one can only take more away; it needs `Calls::threads` of the first. Allocates
  /// nothing and is async-signal-safe: may run in a child that was just forked. False: this kernel
  /// has no filters (errno is ENOSYS or EINVAL), or it refused.
  bool install(Scope scope = Scope::thread) const noexcept;

  /// Instructions.
  [[nodiscard]] std::size_t size() const { return program_.size(); }

 private:
  friend class SystemCalls;
  std::vector<sock_filter> program_;
};

class SystemCalls {
 public:
  /// Names as of the manual ("pread64"). What a machine or libseccomp does not know is left out.
  using Names = std::initializer_list<const char*>;

  /// What is refused, besides: ENOSYS; `kill` ends the process with SIGSYS, to find out what is
  /// missing in a list.
  enum class Refusal : std::uint8_t { no_such_call, kill };

  SystemCalls() = default;
  SystemCalls(std::initializer_list<Calls> groups) {
    for (const Calls group : groups) allow(group);
  }

  SystemCalls& allow(Calls group);
  SystemCalls& allow(Names names);
  /// Raises SIGSYS, whose handler can return a result in the kernel's stead (siginfo_t::si_syscall).
  SystemCalls& trap(Names names);
  /// Everything else.
  SystemCalls& refuse(Refusal how);

  /// For the machine that this was built for; calls of others' conventions (32 bits) kill. Errors:
  /// failed.
  [[nodiscard]] Result<Filter> compile() const;

 private:
  std::vector<const char*> allowed_;
  std::vector<const char*> trapped_;
  Refusal refusal_ = Refusal::no_such_call;
};

/// The names in a group.
std::span<const char* const> names_of(Calls group);

}  // namespace vitrine::sandbox
