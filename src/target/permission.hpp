// Why the kernel refused to show us a process, and what would change its mind.
#pragma once

#include <sys/types.h>

#include "base/result.hpp"

namespace vitrine::target {

/// The error for "`doing` process `pid`" after EPERM or EACCES: names the owner, the yama setting
/// or the capability that stands in the way (ptrace(2), "Ptrace access mode checking"). `proc_dir`:
/// descriptor of /proc/PID.
Error access_refused(pid_t pid, int proc_dir, const char* doing);

/// Whether we have a capability (CAP_* of linux/capability.h) in effect.
bool effective_capability(int capability);

}  // namespace vitrine::target
