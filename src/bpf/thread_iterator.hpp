// Threads by BPF iterators: those of a process, and those that are already blocked.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "bpf/wire/event.h"
#include "bpf/wire/profile.h"
#include "bpf/wire/wire.h"

namespace vitrine::bpf {

// ThreadIterator: the threads of a process, read by the kernel in one pass.

class ThreadIterator {
 public:
  /// Loads the program and binds it to the process behind `pidfd`. Errors: not_permitted (names the
  /// capabilities), unsupported (built without BPF; no BTF; Linux before 6.1), failed.
  static Result<std::unique_ptr<ThreadIterator>> open(int pidfd);

  virtual ~ThreadIterator() = default;

  /// All threads that have not ended and run user code, in no particular order. Replaces the content of `into`. Empty
  /// when the process is gone.
  virtual Result<void> read(std::vector<vitrine_thread>& into) = 0;
};

/// One thread of a process (`pid` as we see it): what the initial pid namespace calls the process,
/// and how deep vitrine's is. Errors: not_found, and as ThreadIterator::open.
Result<vitrine_thread> kernel_view_of(pid_t pid);

/// The inode number of vitrine's pid namespace; 0: not known.
std::uint32_t pid_namespace();

/// Vitrine's pid namespace is the one in which the kernel counts.
bool in_initial_pid_namespace();

/// What the initial pid namespace calls a process (`pid` as we see it). Errors: as kernel_view_of().
Result<pid_t> kernel_tgid_of(pid_t pid);

}  // namespace vitrine::bpf

// WaitingThreads: threads that wait when a profile begins, made pending samples of the profiler.

struct bpf_object;

namespace vitrine::bpf {

class WaitingThreads {
 public:
  /// Loads the program. `profiler` is loaded, and outlives this; its maps are shared. Errors: as
  /// Tracer::open; unsupported also where the kernel (6.1, for example) has no way to read
  /// the memory of another process.
  static Result<std::unique_ptr<WaitingThreads>> open(bpf_object* profiler,
                                                      const vitrine_profile_config& profile_config);

  virtual ~WaitingThreads() = default;

  /// Looks at every thread there is, once. Those that wait are pending since `began_ns`
  /// (CLOCK_MONOTONIC). The profiler must see switches already.
  virtual Result<void> sample(const vitrine_event_config& config,
                              const vitrine_profile_state& profile_state,
                              std::uint64_t began_ns) = 0;
};

}  // namespace vitrine::bpf
