// The auxiliary vector where the kernel gave it to the program: on its stack.
#pragma once

#include <string>

#include "base/memory.hpp"

namespace vitrine::target {

/// The bytes of the auxiliary vector that lies above the arguments and the environment of a 64-bit
/// program. /proc/PID/auxv belongs to the process's owner, so a reader with CAP_SYS_PTRACE alone
/// may read the memory but not that file. `stack_start`: Stat::stack_start. Errors: malformed (the
/// stack does not begin as the kernel makes it), limit.
Result<std::string> auxv_on_stack(Memory& memory, Address stack_start);

}  // namespace vitrine::target
