// glibc's struct pthread, as far as it leads to the thread pointer.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <vector>

#include "base/memory.hpp"
#include "target/thread_layout.hpp"
#include "target/tls_location.hpp"

namespace vitrine::target {

/// Where the kernel was told that `tid`'s list of robust mutexes begins; nullopt when it has none
/// (musl and Go register none) or we may not ask.
std::optional<Address> robust_list_head(pid_t tid);

struct RobustThread {
  Address head = 0;
  pid_t tid = 0;  ///< as its libc knows it
};

/// The thread pointers of threads by their robust list heads, which glibc keeps in struct pthread
/// 16 bytes past the tid (docs/formats/tls.md, "Thread pointers"); nullopt where what is around the
/// head is not that structure.
std::vector<std::optional<Address>> glibc_thread_pointers(
    Memory& memory, Machine machine, std::span<const RobustThread> threads,
    const std::optional<ThreadLayout::Glibc>& layout);

}  // namespace vitrine::target
