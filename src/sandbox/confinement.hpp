// Limits of a worker: memory, time, descriptors and system calls.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/file_descriptor.hpp"
#include "sandbox/system_calls.hpp"

namespace vitrine::sandbox {

// What one request to a worker may cost. (Bounds on the content of files: base/limits.hpp.)

struct Limits {
  std::uint64_t memory = 2ULL << 30;        ///< bytes of address space, beyond what it begins with
  std::chrono::milliseconds time{30'000};   ///< of CPU, and of waiting for anything but a CPU
  std::uint64_t data = 0;                   ///< bytes of private memory; 0: share_of_memory(16)
  const std::atomic<bool>* stop = nullptr;  ///< when it becomes true, a request ends
  /// Without a request for as long, it may be ended (end_idle_workers()).
  std::chrono::milliseconds idle{10'000};
  /// Bytes that it may hold between requests. More than `trimmed` it may hold for some seconds.
  std::uint64_t kept = 256U << 20, trimmed = 32U << 20;
};

/// A part of the memory that the control group of this process may have, as a service manager or a
/// container engine sets it; all that there are addresses for, where it sets no limit.
std::uint64_t share_of_memory(unsigned parts);

inline constexpr std::size_t request_bytes = 64U << 20;    ///< 10,000 sites have 2 MiB
inline constexpr std::size_t response_bytes = 512U << 20;  ///< the probes of the worst file
inline constexpr std::size_t files_opened = 16 * 1024;     ///< at one request

// What memory a process uses, by its /proc/PID/statm.

struct UsedMemory {
  std::uint64_t address_space = 0;  ///< bytes; 0: not known
  std::uint64_t resident = 0;       ///< bytes
  std::uint64_t data = 0;           ///< bytes of private memory, resident or not
};

/// By its open statm. Async-signal-safe.
UsedMemory used_memory(const FileDescriptor& statm);

// Confinement: what a process that parses an untrusted file may do: use its memory, read what is
// open, respond, and end. No more than that, whatever the file makes of the parser.

/// For good: no capability, no core dump, no more than `memory` bytes of address space and `data` of
/// private memory beyond what there is, no system call that is not needed, no life after `parent`.
/// Opening a file becomes a request (MessageKind::open) over `socket`: the descriptor that comes back
/// is what the call returns.
/// Where the kernel has no filters of system calls, the rest holds all the same.
void confine(int socket, pid_t parent, const char* name, std::uint64_t memory, std::uint64_t data);

/// Of system calls. Made when it is first asked for, which must be before the fork: see confine().
const Result<sandbox::Filter>& worker_filter();

/// What may be used of the processor from now on, before the kernel ends the process.
void allow_time(std::chrono::milliseconds time);

/// Whether this process is a worker, and confined by now.
bool is_worker();

/// In a worker: asks for the file at a path below one of the roots (sandbox::Open). None: it is not
/// to be had, or this is no worker.
FileDescriptor ask_for_file(std::uint32_t root, const std::string& path);

}  // namespace vitrine::sandbox
