// TracedProcesses: the processes that a trace is about, while they live.
#pragma once

#include <sys/types.h>

#include <map>
#include <vector>

#include "base/result.hpp"
#include "target/proc_file.hpp"

namespace vitrine::observe {

class TracedProcesses {
 public:
  /// Errors: not_found.
  Result<void> add(pid_t pid);

  [[nodiscard]] bool has(pid_t pid) const { return alive_.contains(pid); }
  [[nodiscard]] std::vector<pid_t> all() const;
  [[nodiscard]] bool empty() const { return alive_.empty(); }

  /// Leaves out those that have ended, and returns them.
  std::vector<pid_t> take_ended();

 private:
  std::map<pid_t, target::FileDescriptor> alive_;  ///< pidfds
};

}  // namespace vitrine::observe
