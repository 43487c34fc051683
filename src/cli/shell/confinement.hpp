// Needs: what a command may ask of the kernel, at most. It declares that; confinement.hpp holds it
// to it.
#pragma once

#include <string>
#include <vector>

#include "sandbox/capabilities.hpp"
#include "sandbox/system_calls.hpp"

namespace vitrine::cli {

/// One use of a command, and the smallest set of capabilities with which the kernel allows it. A row
/// of the table in docs/for-operators.md, of man pages and of `vitrine doctor`.
struct Use {
  std::string line;              ///< "labels --mode ebpf"
  sandbox::Capabilities own;     ///< about files, or processes of one's own
  sandbox::Capabilities others;  ///< about processes of other users
  std::string without;           ///< what there is without them
  bool uprobes = false;          ///< takes what kernels before Linux 6.6 want for them, too
  bool perf_events = false;      ///< takes what this kernel wants for them beside CAP_PERFMON
};

struct Needs {
  sandbox::Capabilities setting_up;  ///< kept until what is observed is attached to
  sandbox::Capabilities working;     ///< kept until the end
  sandbox::SystemCalls calls;
  /// It starts a program of the user's first, which must have all the rights that the user has:
  /// nothing is dropped until that runs.
  bool launches = false;
  bool libraries = true;  ///< libdw, libelf and libbpf are loaded when it begins
};

namespace capabilities {

inline constexpr sandbox::Capabilities ptrace{CAP_SYS_PTRACE};
/// BPF programs, perf events, and by uprobe_multi (Linux 6.6) uprobes.
inline constexpr sandbox::Capabilities bpf{CAP_BPF, CAP_PERFMON};
/// Uprobes before Linux 6.6, and to write into a program that asks whether it is traced.
inline constexpr sandbox::Capabilities admin{CAP_SYS_ADMIN};
/// Processes of other users: their memory, and their files: /proc/PID/map_files, and folders that
/// only they may enter.
inline constexpr sandbox::Capabilities reading{CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH,
                                               CAP_CHECKPOINT_RESTORE};
/// Files in places of others, for root, with the owner that they had.
inline constexpr sandbox::Capabilities writing{CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_CHOWN,
                                               CAP_FOWNER};
/// To end what was started, if it has become another user's.
inline constexpr sandbox::Capabilities ending{CAP_KILL};
/// To get a CPU before those that are observed.
inline constexpr sandbox::Capabilities priority{CAP_SYS_NICE};
/// Names of kernel functions.
inline constexpr sandbox::Capabilities kernel_names{CAP_SYSLOG};

}  // namespace capabilities

/// Of a command that looks at processes and files.
Needs needs_of_reading();
/// Of one that has the kernel look, too: BPF programs and perf events.
Needs needs_of_bpf();
/// Of one that makes files out of files; they are parsed in a worker.
Needs needs_of_building();

// Confinement: a command drops the rights it does not need. Only the command does that: a library
// never takes its host's rights.

/// Before it works: drops what it never needs, if it does not launch a program. Errors: failed.
Result<void> begin_confined(const Needs& needs);

/// Gets a CPU before what is observed, as far as that is permitted (capabilities::priority): at equal
/// priority, the reader of many busy threads has too little of the CPUs to keep up. Threads and
/// workers that are started later are like this one, and so is what is launched: not before that.
void take_priority();

/// What it attaches to is attached to, and what it launches runs: drops what was for that.
/// Threads that run must have dropped theirs (give_up_in_thread). Errors: failed.
Result<void> go_on_confined(const Needs& needs);

/// What `work` comes to, a Result, with `held_back` in effect in this thread while it runs. Errors: those of
/// `work`; failed.
template <class Work>
auto with_in_effect(sandbox::Capabilities held_back, Work work) -> decltype(work()) {
  if (held_back.empty()) return work();
  TRY(sandbox::put_into_effect(held_back, true));
  const struct Held {  // also where `work` throws
    ~Held() { static_cast<void>(sandbox::put_into_effect(capabilities, false)); }
    sandbox::Capabilities capabilities;
  } held{held_back};
  return work();
}

/// Of a command that reads a file in its own process: drops all capabilities but that to open files.
/// Errors: failed.
Result<void> keep_opening_only();

/// Drops the rest, before it parses the file. It can read and write what is open, get memory, and end: it
/// opens nothing, reaches no process, and starts none. Errors: failed.
Result<void> keep_open_files_only();

/// What of it is in force now, as the kernel reports it (proc_pid_status(5)).
struct Confinement {
  bool no_new_privs = false;    ///< no_new_privs
  bool calls_filtered = false;  ///< by seccomp
};
Confinement confinement_now();

/// Of a thread that only sends: all but reading files that are named to it.
void give_up_in_thread() noexcept;

/// Of what is held, what `wanted` is about: capabilities that others include (CAP_SYS_ADMIN has
/// CAP_BPF's powers) by those others, where they are not held themselves.
sandbox::Capabilities kept_of(sandbox::Capabilities wanted, sandbox::Capabilities held);

/// Whether `held` has the powers of `wanted`.
bool suffice(sandbox::Capabilities held, sandbox::Capabilities wanted);

}  // namespace vitrine::cli
