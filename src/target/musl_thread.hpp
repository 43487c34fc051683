// musl's struct pthread, as far as it leads to the thread pointer (docs/formats/tls.md, "musl").
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <vector>

#include "base/memory.hpp"
#include "target/threads.hpp"
#include "target/tls_location.hpp"

namespace vitrine::target {

/// The thread pointers of all threads in musl's ring by tid, from any one of them. A ring that is
/// broken or longer than limits::threads ends where it breaks.
std::map<pid_t, Address> musl_ring(Memory& memory, Machine machine, Address tp);

/// Part of a process's memory.
struct Range {
  Address begin = 0;
  Address end = 0;
};

/// The writable private memory of a process in which its C library may keep a thread structure:
/// stacks, heap, data of modules. Of a large mapping its first and its last part. Bounded.
std::vector<Range> thread_memory(int proc_dir);

/// The thread pointer of the first of `wanted` (by tid) whose thread structure lies in `range`:
/// told by its reference to itself, its tid, its place in the ring and a DTV for `tls_modules`.
std::optional<Address> musl_thread_in(Memory& memory, Machine machine, Range range,
                                      const std::map<pid_t, ThreadId>& wanted,
                                      std::uint64_t tls_modules);

}  // namespace vitrine::target
