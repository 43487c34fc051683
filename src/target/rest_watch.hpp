// RestWatch: proof, from /proc alone, that a thread ran nothing for a while.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include "target/proc_file.hpp"

namespace vitrine::target {

/// The proof (docs/formats/custom-labels.md, "Evidence"): how often the thread was given a CPU
/// (schedstat), then that it is on none now (the kernel answers a read of `syscall` only for a
/// thread that is blocked, else says "running"), then whatever is to be proven, then the first
/// number again. Equal: it ran nothing in between. Needs a kernel with CONFIG_SCHED_INFO and the
/// right to trace the process.
class RestWatch {
 public:
  /// `proc_dir`: descriptor of /proc/PID, borrowed.
  explicit RestWatch(int proc_dir);

  /// The number of the thread's runs, if it is at rest; nullopt when it is not, or has ended, or
  /// the kernel does not tell.
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
  struct Files {
    FileDescriptor schedstat;
    FileDescriptor syscall;
  };

  Result<Files> open(pid_t tid) const;
  std::optional<std::uint64_t> runs(pid_t tid, Files*& files);

  int proc_dir_;
  std::size_t most_kept_;
  std::map<pid_t, Files> files_;  // of as many threads as the limit of open files allows
  Files passing_;                 // of the last one above that
};

}  // namespace vitrine::target
