// What memory a process uses, by its /proc/PID/statm.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace vitrine::worker {

struct UsedMemory {
  std::uint64_t address_space = 0;  ///< bytes; 0: not known
  std::uint64_t resident = 0;       ///< bytes
};

/// `path`: of a statm. Async-signal-safe.
UsedMemory used_memory(const char* path);

UsedMemory used_memory_of(pid_t pid);

}  // namespace vitrine::worker
