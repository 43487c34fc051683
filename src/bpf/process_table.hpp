// ProcessTable: what a program in the kernel is told of processes: how their labels are found.
#pragma once

#include <sys/types.h>

#include "base/result.hpp"
#include "bpf/moment_wire.h"

namespace vitrine::bpf {

class ProcessTable {
 public:
  virtual ~ProcessTable() = default;

  /// How labels are found in a process (its id as the initial pid namespace has it: a record's
  /// kernel_tgid, or a vitrine_thread's). Replaces what was told before. Error: limit (65,536
  /// processes).
  virtual Result<void> want(pid_t kernel_tgid, const vitrine_target& target) = 0;
  virtual void forget(pid_t kernel_tgid) = 0;

  /// The same for processes that execute a file and of which nothing has been told: what is read so
  /// has VITRINE_FIRE_PRESUMED. The 1,024 files used last are kept.
  virtual void presume(const vitrine_executable& file, const vitrine_target& target) = 0;
};

}  // namespace vitrine::bpf
