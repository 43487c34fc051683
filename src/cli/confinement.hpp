// Confinement: a command gives up what it does not need. Only the command does that: a library
// never takes its host's rights.
#pragma once

#include "cli/needs.hpp"

namespace vitrine::cli {

/// Before it works: gives up what it never needs, if it does not launch a program. Errors: failed.
Result<void> begin_confined(const Needs& needs);

/// What it attaches to is attached to, and what it launches runs: gives up what was for that.
/// Threads that run must have given up theirs (give_up_in_thread). Errors: failed.
Result<void> go_on_confined(const Needs& needs);

/// What of it is in force now, as the kernel tells (proc_pid_status(5)).
struct Confinement {
  bool gains_nothing = false;   ///< no_new_privs
  bool calls_filtered = false;  ///< by seccomp
};
Confinement confinement_now();

/// Of a thread that only sends: all but to read files that we are told to.
void give_up_in_thread() noexcept;

/// Of what is held, what `wanted` is about: capabilities that others include (CAP_SYS_ADMIN has
/// CAP_BPF's powers) by those others, where they are not held themselves.
confine::Capabilities standing_for(confine::Capabilities wanted, confine::Capabilities held);

/// Whether `held` has the powers of `wanted`.
bool suffice(confine::Capabilities held, confine::Capabilities wanted);

}  // namespace vitrine::cli
