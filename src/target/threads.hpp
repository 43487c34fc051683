// The threads of a live process.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "target/proc_file.hpp"

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

/// Whether the main thread of a process has ended, while others go on.
bool has_no_main_thread(pid_t pid);

/// How often another thread is taken for one that ended while it was used.
inline constexpr int threads_followed = 16;

/// Whether this thread of the process has not ended.
bool is_live(int proc_dir, pid_t tid);

/// Whether this very thread still runs code of the process. Not once it begins to end: from then on its stack, and what
/// is thread-local, may be those of a thread that starts. True after a read: what was read was this thread's own.
bool is_still(int proc_dir, ThreadId id);

/// What `read` gives for the directory of such a thread, as "task/TID" below `proc_dir`. When that
/// thread ended meanwhile, another is taken. `read`: std::string to a Result. Errors: not_found
/// when no thread lives; those of `read`.
template <class Read>
auto by_live_thread(int proc_dir, Read read) -> decltype(read(std::string())) {
  for (int attempt = 0;; ++attempt) {
    const pid_t tid = TRY(live_thread(proc_dir));
    auto result = read("task/" + std::to_string(tid));
    if (result || attempt == threads_followed || is_live(proc_dir, tid)) return result;
  }
}

// RestWatch: proof, from /proc alone, that a thread ran nothing for a while.

/// The proof (docs/formats/custom-labels.md, "Evidence"): how often the thread was given a CPU
/// (schedstat), then that it is on none now (the kernel serves a read of `syscall` only for a
/// thread that is blocked, else returns "running"), then whatever must be proven, then the first
/// number again. Equal: it ran nothing in between. Needs a kernel with CONFIG_SCHED_INFO and the
/// right to trace the process.
class RestWatch {
 public:
  /// `proc_dir`: descriptor of /proc/PID, borrowed.
  explicit RestWatch(int proc_dir);

  /// The number of the thread's runs, if it is at rest; nullopt when it is not, or has ended, or
  /// the kernel does not report it.
  std::optional<std::uint64_t> begin(pid_t tid);

  /// Whether the thread has run nothing since begin() returned `since`.
  bool still_rests(pid_t tid, std::uint64_t since);

  /// Forgets the threads that are not in `[first, last)`, a sorted range of tids.
  template <class Iterator>
  void keep_only(Iterator first, Iterator last) {
    std::erase_if(files_,
                  [&](const auto& entry) { return !std::binary_search(first, last, entry.first); });
  }

 private:
  std::optional<std::uint64_t> runs(pid_t tid);

  int proc_dir_;
  std::size_t max_kept_;
  // schedstat of as many threads as the limit of open files allows
  std::map<pid_t, FileDescriptor> files_;
};

}  // namespace vitrine::target
