// musl's struct pthread, as far as it leads to the thread pointer (labels.md 3.5).
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>

#include "base/memory.hpp"
#include "target/thread_layout.hpp"
#include "target/threads.hpp"
#include "target/tls_location.hpp"

namespace vitrine::target {

/// The thread pointers of all threads in musl's ring by tid, from any one of them. A ring that is
/// broken or longer than limits::threads ends where it breaks.
std::map<pid_t, Address> musl_ring(Memory& memory, Machine machine, Address tp);

/// The first thread structure of one of `wanted` (by tid) that lies in `range`, told by its
/// reference to itself, its tid and its place in the ring.
std::optional<Address> musl_thread_in(Memory& memory, Machine machine, ThreadLayout::Range range,
                                      const std::map<pid_t, ThreadId>& wanted);

/// Where a thread that is blocked in the kernel has its stack: from its stack pointer on, as far as
/// a structure at the end of the stack may be. nullopt while the thread runs.
std::optional<ThreadLayout::Range> blocked_stack(int proc_dir, pid_t tid);

}  // namespace vitrine::target
