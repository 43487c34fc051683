// Maps of programs: through which a loader configures its own (target processes, and what all programs
// share), and their counters.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "bpf/wire/event.h"

namespace vitrine::bpf {

// ProcessTable: what a program in the kernel is given of processes: how their labels are found.

class ProcessTable {
 public:
  virtual ~ProcessTable() = default;

  /// How labels are found in a process (its id as the initial pid namespace has it: a record's
  /// kernel_tgid, or a vitrine_thread's). Replaces what was given before. Error: limit (65,536
  /// processes).
  virtual Result<void> want(pid_t kernel_tgid, const vitrine_target& target) = 0;
  virtual void forget(pid_t kernel_tgid) = 0;

  /// The same for processes that execute a file and of which nothing has been given: what is read
  /// so has VITRINE_FIRE_ASSUMED. The 1,024 files used last are kept.
  virtual void assume(const vitrine_executable& file, const vitrine_target& target) = 0;
};

// What every program that includes event_state.bpf.h is given by its loader.

/// `ring_bytes`: size of its buffer. `epoch`: of the label sets that will be kept. Errors: as
/// ThreadIterator::open.
Result<vitrine_event_config> event_config(std::size_t ring_bytes, std::uint32_t epoch);

// TargetMaps: the maps behind a ProcessTable (event_state.bpf.h).

/// Their descriptors; the caller does not close them.
struct TargetMaps {
  int targets = -1;
  int assumed = -1;
  /// Of a program that keeps copies of what is in them: the word in which it sees that they change
  /// (vitrine_trace_config). Null: it keeps none.
  __u64* changes = nullptr;

  /// Fills in when it was given. `only_new`: what was given of this process before stays.
  [[nodiscard]] Result<void> want(pid_t kernel_tgid, const vitrine_target& target,
                                  bool only_new = false) const;
  void forget(pid_t kernel_tgid) const;
  void assume(const vitrine_executable& file, const vitrine_target& target) const;
};

/// The value of a key of a per-CPU map of 64-bit numbers (BPF_MAP_TYPE_PERCPU_ARRAY), of all CPUs together; 0: it cannot be
/// read.
std::uint64_t sum_of_cpus(int map, std::uint32_t key);

/// Lets switches and interrupts that are under way on any CPU come to their end: those that follow go
/// by what is attached, and by what is in maps, now.
void let_programs_end();

}  // namespace vitrine::bpf
