#include "cli/shell/confinement.hpp"

#include <sys/resource.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include "cli/shell/libraries.hpp"
#include "cli/shell/report.hpp"

namespace vitrine::cli {

using sandbox::Calls;

Needs needs_of_reading() {
  return {capabilities::reading,
          capabilities::reading,
          // With children: what is parsed for it is parsed in a worker.
          {Calls::memory, Calls::reading, Calls::files, Calls::threads, Calls::processes},
          false};
}

Needs needs_of_bpf() {
  Needs needs = needs_of_reading();
  needs.working = needs.working | capabilities::bpf;
  needs.setting_up = needs.working | sandbox::added_for_perf_events();
  needs.calls.allow(Calls::kernel);
  return needs;
}

Needs needs_of_building() {
  return {capabilities::writing,
          capabilities::writing,
          {Calls::memory, Calls::reading, Calls::files, Calls::changing, Calls::threads,
           Calls::processes, Calls::ipc},
          false};
}

namespace {

using sandbox::Capabilities;

/// Which newer and smaller capability is a part of which older one (capabilities(7)). Not
/// CAP_CHECKPOINT_RESTORE: CAP_SYS_ADMIN is too much for files that are deleted.
struct Part {
  int part, whole;
};
constexpr Part parts[] = {{CAP_BPF, CAP_SYS_ADMIN},
                          {CAP_PERFMON, CAP_SYS_ADMIN},
                          {CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE}};

#ifdef VITRINE_SANITIZED
constexpr bool filters = false;  // sanitizers make calls of their own
#else
constexpr bool filters = true;
#endif

/// VITRINE_SECCOMP: "off" for machines where a list is too short; "kill" to find out by a core dump
/// which call that is. Not heeded where the file has capabilities: then the user is not trusted
/// with more than what we do.
std::string_view wish() {
  const char* value = ::secure_getenv("VITRINE_SECCOMP");
  return value == nullptr ? "" : value;
}

Result<void> filter(sandbox::SystemCalls calls) {
  if (!filters) return {};
  if (wish() == "off") {
    note("system calls are not filtered (VITRINE_SECCOMP=off)");
    return {};
  }
  if (wish() == "kill") calls.refuse(sandbox::SystemCalls::Refusal::kill);
  const auto filter = TRY(calls.compile());
  if (filter.install(sandbox::Filter::Scope::process)) return {};
  // A kernel without filters: what was dropped before stays dropped.
  if (errno == ENOSYS || errno == EINVAL) return {};
  return fail(ErrorCode::failed, std::string("cannot filter system calls: ") + std::strerror(errno),
              "set VITRINE_SECCOMP=off to run without the filter");
}

Result<void> keep(Capabilities now, Capabilities later) {
  const Capabilities held = sandbox::effective_capabilities();
  return sandbox::keep_only(kept_of(now, held), kept_of(later, held));
}

}  // namespace

Capabilities kept_of(Capabilities wanted, Capabilities held) {
  for (const auto& [part, whole] : parts)
    if (wanted.has(part) && !held.has(part)) wanted = wanted | Capabilities{whole};
  return wanted & held;
}

bool suffice(Capabilities held, Capabilities wanted) {
  for (const auto& [part, whole] : parts)
    if (held.has(whole)) wanted = wanted.without({part});
  return held.has_all(wanted);
}

Result<void> begin_confined(const Needs& needs) {
  if (needs.libraries) TRY(load_libraries());
  if (needs.launches) return {};
  return keep(needs.setting_up | needs.working, needs.working)
      .and_then([] { return sandbox::set_no_new_privs(); })
      .and_then([&] { return filter(needs.calls); });
}

void take_priority() {
  constexpr int nice_value = -20;  // two busy threads of vitrine have a CPU each beside hundreds
  (void)::setpriority(PRIO_PROCESS, 0, nice_value);
}

Result<void> go_on_confined(const Needs& needs) {
  return keep(needs.working, needs.working)
      .and_then([] { return sandbox::set_no_new_privs(); })
      .and_then([&] { return needs.launches ? filter(needs.calls) : Result<void>{}; });
}

namespace {

/// What bounds an execution is left as it is: there will be none.
Result<void> keep_effective(Capabilities wanted) {
  return sandbox::keep_only(wanted & sandbox::effective_capabilities(),
                            Capabilities::of_bits(~std::uint64_t{0}))
      .and_then([] { return sandbox::set_no_new_privs(); });
}

}  // namespace

Result<void> keep_opening_only() {
  return keep_effective({CAP_DAC_READ_SEARCH});
}

Result<void> keep_open_files_only() {
  TRY(keep_effective({}));
  return filter(sandbox::SystemCalls().allow(
      {"read",         "pread64",      "lseek",          "close",           "fstat",
       "newfstatat",   "write",        "writev",         "ioctl",           "poll",
       "ppoll",        "mmap",         "munmap",         "mremap",          "brk",
       "madvise",      "mprotect",     "futex",          "getrandom",       "clock_gettime",
       "rt_sigaction", "rt_sigreturn", "rt_sigprocmask", "restart_syscall", "rseq",
       "sched_yield",  "getpid",       "gettid",         "tgkill",          "exit",
       "exit_group",   "uretprobe",    "uprobe"}));
}

Confinement confinement_now() {
  Confinement now;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    now.no_new_privs = now.no_new_privs || line == "NoNewPrivs:\t1";
    now.calls_filtered = now.calls_filtered || line == "Seccomp:\t2";
  }
  return now;
}

void give_up_in_thread() noexcept {
  (void)keep({CAP_DAC_READ_SEARCH}, {CAP_DAC_READ_SEARCH});
}

}  // namespace vitrine::cli
