// The time that a process and all that it starts are on a CPU, as the kernel switches them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace vitrine::test {

/// Records each context switch of the machine, and ticks of a clock on each CPU: a second opinion on what
/// a profile samples, which shares no code with it.
class OnCpu {
 public:
  struct Times {
    double ns = 0;             ///< between switches to the threads and switches away from them
    std::size_t switches = 0;  ///< away from them
    std::size_t ticks = 0;     ///< while they were on a CPU
    std::uint64_t lost = 0;    ///< records for which there was no room
  };

  /// `pid` must not run yet, and has one thread. Nothing: the kernel refuses; the test has failed.
  static std::unique_ptr<OnCpu> begin(pid_t pid, unsigned frequency);
  virtual ~OnCpu() = default;
  /// What was used since begin(). The threads must not run any more.
  virtual Times end() = 0;
};

}  // namespace vitrine::test
