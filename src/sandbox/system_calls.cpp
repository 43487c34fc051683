// The lists. Names that do not exist on a machine are left out there, so each has the old and the
// new form of a call: which is made is up to the libc (glibc, musl) and its age. Two are allowed in
// part: clone and ioctl (system_calls.cpp).

#include "sandbox/system_calls.hpp"

#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

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
    // our own identity and place
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

struct Released {
  void operator()(void* context) const { ::seccomp_release(context); }
};
using Context = std::unique_ptr<void, Released>;

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

std::vector<int> numbers_of(const std::vector<const char*>& names) {
  std::vector<int> numbers;
  for (const char* name : names)
    if (const auto number = number_of(name)) numbers.push_back(*number);
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

tl::unexpected<Error> failed(int error) {
  return fail(ErrorCode::failed,
              fmt::format("cannot create a system call filter: {}", std::strerror(error)));
}

/// Threads and processes, but no namespaces: within one of users it would have every capability. The
/// flags of clone3 are in memory, which no filter sees: it is on no list, and libcs then use clone.
int allow_clone(void* context, int number) {
  constexpr scmp_datum_t namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                      CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
  const scmp_arg_cmp flags{0, SCMP_CMP_MASKED_EQ, namespaces, 0};
  return ::seccomp_rule_add_array(context, SCMP_ACT_ALLOW, number, 1, &flags);
}

/// All but what would change the terminal we run on, or type into it (TIOCSTI): of the requests of
/// terminals, those that ask. The kernel takes 32 bits of the argument, so those are compared.
int allow_ioctl(void* context, int number) {
  constexpr scmp_datum_t all = 0xffffffff, terminals = 'T' << 8;
  int error = 0;
  const auto allow = [&](scmp_datum_t mask, scmp_datum_t value) {
    const scmp_arg_cmp request{1, SCMP_CMP_MASKED_EQ, mask, value};
    if (error == 0) error = ::seccomp_rule_add_array(context, SCMP_ACT_ALLOW, number, 1, &request);
  };
  // Of another type: in some bit at least.
  for (scmp_datum_t bit = 0x100; bit != 0x10000; bit <<= 1) allow(bit, ~terminals & bit);
  for (const int asks : {TCGETS, TIOCGPGRP, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX})
    allow(all, static_cast<scmp_datum_t>(asks));
  allow(all, 0x802c542a);  // TCGETS2
  return error;
}

int allow_call(void* context, int number) {
  if (number == SYS_clone) return allow_clone(context, number);
  if (number == SYS_ioctl) return allow_ioctl(context, number);
  return ::seccomp_rule_add(context, SCMP_ACT_ALLOW, number, 0);
}

std::uint32_t action_of(SystemCalls::Refusal refusal) {
  return refusal == SystemCalls::Refusal::kill ? SCMP_ACT_KILL_PROCESS : SCMP_ACT_ERRNO(ENOSYS);
}

/// What libseccomp makes of it; it writes to descriptors alone.
Result<std::vector<std::uint8_t>> program_of(void* context) {
  const int file = ::memfd_create("vitrine-filter", MFD_CLOEXEC);
  if (file < 0) return failed(errno);
  std::vector<std::uint8_t> bytes;
  struct stat status {};
  int error = -::seccomp_export_bpf(context, file);
  if (error == 0 && ::fstat(file, &status) != 0) error = errno;
  if (error == 0) {
    bytes.resize(static_cast<std::size_t>(status.st_size));
    if (::pread(file, bytes.data(), bytes.size(), 0) != status.st_size) error = EIO;
  }
  ::close(file);
  if (error == 0 && (bytes.empty() || bytes.size() > BPF_MAXINSNS * sizeof(sock_filter)))
    error = E2BIG;
  if (error != 0) return failed(error);
  return bytes;
}

}  // namespace

static_assert(sizeof(sock_filter) == 8, "Filter::size()");

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
  const Context context(::seccomp_init(action_of(refusal_)));
  if (!context) return failed(ENOMEM);
  // Not to be had from every kernel and libseccomp: a thread is killed else, and calls take longer to
  // find.
  (void)::seccomp_attr_set(context.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
  (void)::seccomp_attr_set(context.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
  int error = 0;
  const std::vector<int> trapped = numbers_of(trapped_);
  for (const int number : trapped)
    if (error == 0) error = ::seccomp_rule_add(context.get(), SCMP_ACT_TRAP, number, 0);
  for (const int number : numbers_of(allowed_))
    if (error == 0 && !std::ranges::binary_search(trapped, number))
      error = allow_call(context.get(), number);
  // Also where others kill: libcs try it first, and clone then.
  const std::optional<int> clone3 = number_of("clone3");
  if (error == 0 && clone3 && refusal_ == Refusal::kill)
    error = ::seccomp_rule_add(context.get(), SCMP_ACT_ERRNO(ENOSYS), *clone3, 0);
  if (error != 0) return failed(-error);
  auto program = TRY(program_of(context.get()));
  Filter filter;
  filter.program_ = std::move(program);
  return filter;
}

bool Filter::install(Scope scope) const noexcept {
  // The kernel copies the instructions; their alignment does not matter to it.
  struct {
    unsigned short count;
    const void* instructions;
  } program{static_cast<unsigned short>(size()), program_.data()};
  static_assert(sizeof program == sizeof(sock_fprog));
  const unsigned flags = scope == Scope::process ? SECCOMP_FILTER_FLAG_TSYNC : 0;
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) == 0;
}

}  // namespace vitrine::sandbox
