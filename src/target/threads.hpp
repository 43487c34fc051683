// The threads of a live process.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace vitrine::target {

/// Names one thread for ever: the kernel reuses tids, but not with the same start time.
struct ThreadId {
  pid_t tid = 0;                 ///< in the reader's pid namespace
  std::uint64_t start_time = 0;  ///< clock ticks since boot (/proc/PID/task/TID/stat field 22)

  auto operator<=>(const ThreadId&) const = default;
};

struct Thread {
  ThreadId id;
  std::string comm;
  char state = '?';  ///< as in /proc: R, S, D, T, Z, …

  /// Has ended, though its entry is still there (a leader that exited before its threads).
  [[nodiscard]] bool ended() const { return state == 'Z' || state == 'X'; }
};

/// The tids below /proc/PID/task (`proc_dir`: descriptor of /proc/PID), ascending: two lists can be
/// compared with std::set_difference. Errors: not_found when the process is gone.
Result<std::vector<pid_t>> thread_ids(int proc_dir);

/// One thread. Errors: not_found when it has ended and is reaped.
Result<Thread> thread(int proc_dir, pid_t tid);

/// All threads that have not ended, ascending by tid. One that ends meanwhile is left out. Errors:
/// as thread_ids.
Result<std::vector<Thread>> threads(int proc_dir);

/// A thread that has not ended: the leader if it has not. Errors: not_found.
Result<pid_t> live_thread(int proc_dir);

}  // namespace vitrine::target
