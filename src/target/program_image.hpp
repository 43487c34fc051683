// Which program a process executes, as the kernel's side of a trace names it.
#pragma once

#include <cstdint>

namespace vitrine::target {

/// vitrine_image_of (bpf/wire.h) of the process whose /proc/PID directory this is; 0: it is gone, or
/// that is not for us to know.
std::uint64_t program_image(int proc_dir);

}  // namespace vitrine::target
