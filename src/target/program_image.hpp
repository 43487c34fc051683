// Which program a process executes, as the kernel's side of a trace names it.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace vitrine::target {

/// vitrine_image_of (bpf/wire.h) of the process whose /proc/PID directory this is; 0: it is gone, or
/// that is not for us to know.
std::uint64_t program_image(int proc_dir);

/// What a process is in its own namespaces, as files that it writes have it.
struct InnerIdentity {
  pid_t pid = 0;  ///< in its own pid namespace; 0: not known
  uid_t owner = ~uid_t{0};
};

/// Of the process whose /proc/PID directory this is; what cannot be read stays unknown.
InnerIdentity read_inner_identity(int proc_dir);

}  // namespace vitrine::target
