// Stopping threads briefly, by ptrace, so that nothing is left behind however it ends.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/memory.hpp"
#include "base/result.hpp"
#include "target/process.hpp"

namespace vitrine::target {

/// What a visitor learns of one thread: its thread pointer while it is stopped, or why it could
/// not be stopped: not_found (it has ended), not_permitted (also: another tracer has it), failed
/// (it did not stop in time: blocked in vfork, for example, or in uninterruptible sleep).
using StoppedVisitor =
    std::function<void(std::size_t index, const Result<Address>& thread_pointer)>;

/// What traces a thread, and keeps all others from stopping it: a debugger, strace.
struct OtherTracer {
  pid_t pid = 0;     ///< 0: nothing does, or nothing that this PID namespace has
  std::string comm;  ///< empty: not known

  /// "17 (gdb)"
  [[nodiscard]] std::string name() const;
};

/// `proc_dir`: descriptor of /proc/PID of its process. Nothing: the thread has ended.
std::optional<OtherTracer> tracer_of(int proc_dir, pid_t tid);

/// Stops each of `tids` (of `process`), calls `visit` with its index while it is stopped, and lets
/// it go on; in the order in which they stop, as several are asked to at a time. Returns when all are
/// done; ends early when `cancel` becomes true.
///
/// PTRACE_SEIZE and PTRACE_INTERRUPT, never SIGSTOP or PTRACE_ATTACH, and no wait without a
/// deadline. A signal that arrives at the wrong time is delivered when the thread goes on; a
/// process that was stopped (job control) stays so. What cannot be prevented: some system calls
/// (epoll_wait, semop, …) of a thread that was stopped in them return EINTR.
///
/// A process of its own traces, as PTRACE_SEIZE waits for the end of an exec of the target, which
/// may never come: then it is killed, and the threads that are left are reported as failed. At its
/// end the kernel lets go of everything it traces, stopped or not, with its signals: so a thread
/// that did not stop in time is not traced any longer than this call lasts, and neither is any
/// thread when we are killed. Where Yama allows tracing of descendants only, a thread traces.
void visit_stopped(const Process& process, std::span<const pid_t> tids,
                   std::chrono::milliseconds deadline, const std::atomic<bool>* cancel,
                   const StoppedVisitor& visit);

}  // namespace vitrine::target
