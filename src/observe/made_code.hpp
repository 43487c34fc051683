// MadeCode: the functions that a process has made at run time, as it says in /tmp/perf-PID.map.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "symbol/perf_map.hpp"

namespace vitrine::observe {

class MadeCode {
 public:
  /// Reads what has been written since. The file is anybody's to make: it counts if it is a regular
  /// one of the process's user, in its mount namespace (`root`: descriptor). `inner_pid`: in its own
  /// pid namespace; 0: not known. Returns what is wrong with the file; empty: nothing, or there is
  /// none.
  std::string refresh(int root, pid_t inner_pid, uid_t owner);

  [[nodiscard]] std::optional<symbol::PerfMap::Function> find(Address address) const {
    return map_.find(address);
  }

 private:
  symbol::PerfMap map_;
};

}  // namespace vitrine::observe
