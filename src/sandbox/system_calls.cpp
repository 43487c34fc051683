// The lists. Names that do not exist on a machine are left out there, so each has the old and the
// new form of a call: which is made is up to the libc (glibc, musl) and its age. Two are allowed in
// part: clone and ioctl (filter_program.cpp).

#include "sandbox/system_calls.hpp"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "sandbox/filter_program.hpp"

namespace vitrine::sandbox {
namespace {

constexpr const char* memory[] = {
    // memory
    "brk", "mmap", "munmap", "mremap", "mprotect", "madvise", "mlock", "munlock", "mincore",
    "msync", "membarrier", "map_shadow_stack", "mseal", "pkey_mprotect",
    // locks
    "futex", "futex_wait", "futex_wake", "futex_requeue", "futex_waitv", "set_robust_list",
    "get_robust_list", "rseq",
    // signals
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait",
    "rt_sigpending", "sigaltstack", "tgkill", "tkill", "restart_syscall", "pause", "alarm",
    "setitimer", "getitimer", "timer_create", "timer_settime", "timer_gettime", "timer_delete",
    // time
    "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time",
    "times",
    // vitrine's identity and place
    "getpid", "gettid", "getppid", "getpgid", "getpgrp", "getsid", "getuid", "geteuid", "getgid",
    "getegid", "getgroups", "getresuid", "getresgid", "capget", "uname", "sysinfo", "getcpu",
    "sched_yield", "sched_getaffinity", "sched_getparam", "sched_getscheduler", "getpriority",
    "getrusage", "getrandom", "arch_prctl", "set_tid_address",
    // A tracer that has put a probe into our libraries makes these in our name (Linux 6.11, 6.18),
    // and without them we crash.
    "uretprobe", "uprobe",
    // and the end
    "exit", "exit_group"};

constexpr const char* reading[] = {
    "read", "pread64", "readv", "preadv", "preadv2", "write", "pwrite64", "writev", "pwritev",
    "pwritev2", "lseek", "_llseek", "close", "close_range", "fstat", "fstatfs", "dup", "dup2",
    "dup3", "fcntl", "flock", "ioctl", "fadvise64", "readahead", "getdents64", "getdents",
    "ftruncate", "fsync", "fdatasync", "fallocate", "copy_file_range", "sendfile", "splice",
    // waiting
    "poll", "ppoll", "select", "pselect6", "epoll_create1", "epoll_create", "epoll_ctl",
    "epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd2", "eventfd", "signalfd4",
    "timerfd_create", "timerfd_settime", "timerfd_gettime", "pipe2", "pipe", "memfd_create"};

constexpr const char* files[] = {"open",
                                 "openat",
                                 "openat2",
                                 "stat",
                                 "lstat",
                                 "statx",
                                 "newfstatat",
                                 "access",
                                 "faccessat",
                                 "faccessat2",
                                 "readlink",
                                 "readlinkat",
                                 "getcwd",
                                 "statfs",
                                 "getxattr",
                                 "lgetxattr",
                                 "fgetxattr",
                                 "umask",
                                 "inotify_init1",
                                 "inotify_add_watch",
                                 "inotify_rm_watch",
                                 "name_to_handle_at"};

constexpr const char* changing[] = {
    "creat",     "rename", "renameat", "renameat2", "link",     "linkat", "symlink",
    "symlinkat", "unlink", "unlinkat", "mkdir",     "mkdirat",  "rmdir",  "truncate",
    "chmod",     "fchmod", "fchmodat", "fchmodat2", "chown",    "lchown", "fchown",
    "fchownat",  "utime",  "utimes",   "utimensat", "futimesat"};

constexpr const char* threads[] = {
    "clone", "fork", "vfork", "wait4", "waitid", "prctl", "seccomp", "capset", "getrlimit",
    "setrlimit", "prlimit64", "setpriority", "sched_setscheduler", "sched_setaffinity", "setpgid",
    "setsid",
    // A worker is talked to over a pair of sockets; no socket can be made by that.
    "socketpair", "sendmsg", "recvmsg", "sendto", "recvfrom", "shutdown"};

constexpr const char* processes[] = {
    "process_vm_readv", "pidfd_open", "pidfd_send_signal", "kill", "kcmp", "wait4", "waitid"};

constexpr const char* tracing[] = {"ptrace", "wait4", "waitid"};

constexpr const char* kernel[] = {"bpf", "perf_event_open", "prlimit64"};

constexpr const char* network[] = {
    "socket",  "socketpair", "connect",     "bind",        "listen",     "accept",
    "accept4", "shutdown",   "getsockname", "getpeername", "getsockopt", "setsockopt",
    "sendto",  "sendmsg",    "sendmmsg",    "recvfrom",    "recvmsg",    "recvmmsg"};

constexpr const char* ipc[] = {"msgget",     "msgsnd", "msgrcv", "msgctl", "semget", "semop",
                               "semtimedop", "semctl", "shmget", "shmat",  "shmdt",  "shmctl"};

constexpr const char* execute[] = {"execve", "execveat"};

}  // namespace

std::span<const char* const> names_of(Calls group) {
  switch (group) {
    case Calls::memory:
      return memory;
    case Calls::reading:
      return reading;
    case Calls::files:
      return files;
    case Calls::changing:
      return changing;
    case Calls::threads:
      return threads;
    case Calls::processes:
      return processes;
    case Calls::tracing:
      return tracing;
    case Calls::kernel:
      return kernel;
    case Calls::network:
      return network;
    case Calls::ipc:
      return ipc;
    case Calls::execute:
      return execute;
  }
  return {};
}

namespace {

/// Numbers of calls that libseccomp 2.5 does not know; those above 400 are the same everywhere.
constexpr std::pair<std::string_view, int> newer[] = {
#if defined(__x86_64__)
    {"uretprobe", 335},  {"uprobe", 336},
#endif
    {"fchmodat2", 452},  {"map_shadow_stack", 453}, {"futex_wake", 454},
    {"futex_wait", 455}, {"futex_requeue", 456},    {"mseal", 462},
};

/// Nothing: this machine has no such call.
std::optional<int> number_of(const char* name) {
  const int number = ::seccomp_syscall_resolve_name(name);
  if (number >= 0) return number;
  if (number != __NR_SCMP_ERROR) return std::nullopt;  // another machine's
  const auto* known =
      std::ranges::find(newer, std::string_view(name), &std::pair<std::string_view, int>::first);
  return known == std::ranges::end(newer) ? std::nullopt : std::optional(known->second);
}

std::uint32_t action_of(SystemCalls::Refusal refusal) {
  return refusal == SystemCalls::Refusal::kill ? SECCOMP_RET_KILL_PROCESS
                                               : SECCOMP_RET_ERRNO | ENOSYS;
}

Ruling ruling_of(int number) {
  if (number == SYS_clone) return Ruling::threads;
  if (number == SYS_ioctl) return Ruling::descriptors;
  return Ruling::allowed;
}

}  // namespace

SystemCalls& SystemCalls::allow(Calls group) {
  const auto names = names_of(group);
  allowed_.insert(allowed_.end(), names.begin(), names.end());
  return *this;
}

SystemCalls& SystemCalls::allow(Names names) {
  allowed_.insert(allowed_.end(), names);
  return *this;
}

SystemCalls& SystemCalls::trap(Names names) {
  trapped_.insert(trapped_.end(), names);
  return *this;
}

SystemCalls& SystemCalls::refuse(Refusal how) {
  refusal_ = how;
  return *this;
}

Result<Filter> SystemCalls::compile() const {
  std::map<std::uint32_t, Ruling> rulings;
  // Also where others kill: libcs try it first, and clone then.
  if (const auto clone3 = number_of("clone3"); clone3 && refusal_ == Refusal::kill)
    rulings[static_cast<std::uint32_t>(*clone3)] = Ruling::absent;
  for (const char* name : allowed_)
    if (const auto number = number_of(name))
      rulings[static_cast<std::uint32_t>(*number)] = ruling_of(*number);
  for (const char* name : trapped_)
    if (const auto number = number_of(name))
      rulings[static_cast<std::uint32_t>(*number)] = Ruling::trapped;
  Filter filter;
  filter.program_ = filter_program(rulings, action_of(refusal_));
  if (filter.program_.size() > BPF_MAXINSNS)
    return fail(ErrorCode::failed, "cannot create a system call filter: too many instructions");
  return filter;
}

bool Filter::install(Scope scope) const noexcept {
  const sock_fprog program{static_cast<unsigned short>(size()),
                           const_cast<sock_filter*>(program_.data())};
  const unsigned flags = scope == Scope::process ? SECCOMP_FILTER_FLAG_TSYNC : 0;
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) == 0;
}

}  // namespace vitrine::sandbox
