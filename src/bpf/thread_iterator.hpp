// ThreadIterator: the threads of a process, told by the kernel in one pass.
#pragma once

#include <sys/types.h>

#include <memory>
#include <vector>

#include "base/result.hpp"
#include "bpf/wire.h"

namespace vitrine::bpf {

class ThreadIterator {
 public:
  /// Loads the program and binds it to the process behind `pidfd`. Errors: not_permitted (names the
  /// capabilities), unsupported (built without BPF; no BTF; Linux before 6.1), failed.
  static Result<std::unique_ptr<ThreadIterator>> open(int pidfd);

  virtual ~ThreadIterator() = default;

  /// All threads that have not ended, in no particular order. Replaces the content of `into`. Empty
  /// when the process is gone.
  virtual Result<void> read(std::vector<vitrine_thread>& into) = 0;
};

/// One thread of a process (`pid` as we see it): what the initial pid namespace calls the process,
/// and how deep ours is. Errors: not_found, and as ThreadIterator::open.
Result<vitrine_thread> kernel_view_of(pid_t pid);

}  // namespace vitrine::bpf
