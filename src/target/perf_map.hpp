// The files in which JIT compilers name their functions, and the kernel its own.
//
// Anybody may put a file into /tmp under the name that we look for: it is believed only when it is
// an ordinary file of the very user that the process runs as.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace vitrine::target {

struct PerfMapText {
  std::string text;
  bool anew = false;  ///< the file is shorter than `from`: it is another, this is its beginning
};

/// /tmp/perf-PID.map as the process sees it: its root directory, its own idea of its pid. `from`:
/// how much of it is known, bytes. `proc_dir`: descriptor of /proc/PID. Errors: not_found (it has
/// none, or the process is gone), not_permitted (it belongs to another user: the message says
/// whom), unsupported (no regular file), failed.
Result<PerfMapText> read_perf_map(int proc_dir, std::uint64_t from);

/// The text of /proc/kallsyms: for symbol::KernelSymbols. Errors: not_found, not_permitted, failed.
Result<std::string> read_kernel_symbols();

}  // namespace vitrine::target
