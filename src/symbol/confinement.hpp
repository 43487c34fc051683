// Confinement: what a process that parses somebody else's file may do: use its memory, read what is
// open, answer, and end. No more than that, whatever the file makes of the parser.
#pragma once

#include <chrono>
#include <cstdint>

namespace vitrine::symbol {

/// Gives a child that was just forked nothing of its parent's but memory: signals as at the start
/// of a program, only the descriptors `keep` (at most 8, -1: none), which become 3, 4, …; nothing
/// on 0 to 2. Async-signal-safe.
void leave_everything(int (&keep)[8]);

/// For good: no core dump, no more than `memory` bytes of address space beyond what there is, no
/// system call that is not needed. Opening a file becomes a question (Kind::open) over `socket`: the
/// descriptor that comes back is what the call returns. Where the machine cannot do that, files
/// cannot be opened at all. `used`: descriptor of /proc/self/statm.
void confine(int socket, int used, std::uint64_t memory);

/// What may be used of the processor from now on, before the kernel ends the process.
void allow_time(std::chrono::milliseconds time);

/// Bytes resident, by /proc/self/statm; 0: not known.
std::uint64_t resident_bytes(int used);

}  // namespace vitrine::symbol
