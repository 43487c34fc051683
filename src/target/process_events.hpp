// ProcessEvents: what happens to processes, reported by the kernel as it happens.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "target/maps.hpp"

namespace vitrine::target {

/// Each is a reason to look at the process, no more: records of several CPUs are merged by time, but
/// what they report may be over when they are read.
struct ProcessEvent {
  enum class Kind : std::uint8_t {
    forked,    ///< `pid` is a new process of `parent` (new threads are not reported)
    executed,  ///< it runs another program
    mapped,    ///< it has mapped executable pages, of a file or not
    exited,    ///< its first thread has ended, and as a rule all of it
  };
  Kind kind{};
  pid_t pid = 0;     ///< in our pid namespace
  pid_t parent = 0;  ///< of forked
  std::uint64_t time_ns = 0;
  Mapping mapping;  ///< of mapped: as maps has it

  bool operator==(const ProcessEvent&) const = default;
};

/// Of the whole machine: a process may be interesting before we have seen it. Costs the kernel one
/// small record for each.
class ProcessEvents {
 public:
  /// Errors: not_permitted (CAP_PERFMON, or a low enough perf_event_paranoid), failed.
  static Result<std::unique_ptr<ProcessEvents>> open();

  virtual ~ProcessEvents() = default;

  /// Sleeps until something happens, for `time` at most; not at all if take() has something to return. Returns
  /// whether something has, a new or ended thread among it. A signal ends it too. Events cost the kernel
  /// more while it sleeps.
  virtual bool wait(std::chrono::milliseconds time) = 0;

  /// What has happened since the last call, in order of time. Does not wait.
  virtual std::vector<ProcessEvent> take() = 0;

  // For a second thread, which makes room while the first is at something else:

  /// Sleeps until one of the kernel's buffers may be filled to a part, or end_waits() is called.
  virtual void wait_for_many() = 0;
  /// From any thread, and for good.
  virtual void end_waits() = 0;
  /// Makes room for more in the kernel's buffers; take() returns what was there. Returns how many events wait
  /// for it.
  virtual std::size_t collect() = 0;

  /// Records that were lost, in all, with one for each time that a CPU has come online: a caller that depends on them
  /// looks itself when the number has grown.
  [[nodiscard]] virtual std::uint64_t lost() const = 0;
};

}  // namespace vitrine::target
