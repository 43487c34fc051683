// The file in which a JIT compiler names the functions that it makes: /tmp/perf-PID.map.
//
// Anybody may put a file into /tmp under the name that we look for: it is believed only when it is
// an ordinary file of the very user that the process runs as.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace vitrine::target {

struct PerfMapText {
  std::string text;
  bool anew = false;  ///< the file is shorter than `from`: it is another, this is its beginning
};

/// Reads it as the process has it: `root` is a descriptor of its root directory, `pid` its pid by
/// its own idea, `owner` the user whose files it makes. `from`: how much of the file is known,
/// bytes; limits::perf_map_bytes more are read at most. Errors: not_found (it has none),
/// not_permitted (it belongs to another user: the message says whom), unsupported (no regular
/// file), failed.
Result<PerfMapText> read_perf_map(int root, pid_t pid, uid_t owner, std::uint64_t from);

}  // namespace vitrine::target
