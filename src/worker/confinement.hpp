// Confinement: what a process that parses somebody else's file may do: use its memory, read what is
// open, answer, and end. No more than that, whatever the file makes of the parser.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "base/file_descriptor.hpp"
#include "confine/system_calls.hpp"

namespace vitrine::worker {

/// For good: no capability, no core dump, no more than `memory` bytes of address space beyond what
/// there is, no system call that is not needed, no life after `parent`. Opening a file becomes a
/// question (Kind::open) over `socket`: the descriptor that comes back is what the call returns.
/// Where the kernel has no filters of system calls, the rest holds all the same.
void confine(int socket, pid_t parent, const char* name, std::uint64_t memory);

/// Of system calls. Made when it is first asked for, which must be before the fork: see confine().
const Result<confine::Filter>& worker_filter();

/// What may be used of the processor from now on, before the kernel ends the process.
void allow_time(std::chrono::milliseconds time);

/// Whether this process is a worker, and confined by now.
bool is_worker();

/// In a worker: asks for the file at a path below one of the roots (worker::Open). None: it is not
/// to be had, or this is no worker.
FileDescriptor ask_for_file(std::uint32_t root, const std::string& path);

}  // namespace vitrine::worker
