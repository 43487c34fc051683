// What the kernel says of a mapping beyond the line in /proc/PID/maps.
#pragma once

#include <string>
#include <vector>

#include "base/memory.hpp"

namespace vitrine::target {

/// The two-letter flags (VmFlags of /proc/PID/smaps: "rd", "wr", "dc", …) of the mapping that begins
/// at `start`. `proc_dir`: descriptor of /proc/PID. Errors: not_found (no such mapping, or the
/// process is gone), not_permitted, unsupported (this kernel does not tell).
Result<std::vector<std::string>> mapping_flags(int proc_dir, Address start);

/// Among those: a fork does not copy the mapping (MADV_DONTFORK).
inline constexpr const char* flag_not_forked = "dc";

}  // namespace vitrine::target
