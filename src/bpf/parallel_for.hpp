// Many system calls at once, of a kind that waits.
//
// Where uprobes go away, be it that a link ends or that the kernel refuses one in part, it waits for
// a grace period of RCU tasks trace: tens of milliseconds, and more on a busy machine. Calls that
// wait at the same time share one.
#pragma once

#include <cstddef>
#include <functional>

namespace vitrine::bpf {

/// Calls `job` with each number below `count`, many at a time, in threads that end before this
/// returns; where the system gives no thread, in the caller's alone. Rethrows the first exception.
void parallel_for(std::size_t count, const std::function<void(std::size_t)>& job);

}  // namespace vitrine::bpf
