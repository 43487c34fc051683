#include "symbol/confinement.hpp"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <vector>

#include "symbol/channel.hpp"

namespace vitrine::symbol {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t machine = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t machine = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t machine = 0;
#endif

/// What libelf, libdw, malloc and our own loop need. All others fail with EPERM.
constexpr long allowed[] = {
    SYS_read,         SYS_pread64,       SYS_lseek,           SYS_close,        SYS_fstat,
    SYS_mmap,         SYS_munmap,        SYS_mremap,          SYS_brk,          SYS_madvise,
    SYS_mprotect,     SYS_sendmsg,       SYS_recvmsg,         SYS_ppoll,        SYS_futex,
    SYS_getrandom,    SYS_clock_gettime, SYS_getrusage,       SYS_prlimit64,    SYS_rt_sigprocmask,
    SYS_rt_sigreturn, SYS_getpid,        SYS_gettid,          SYS_tgkill,       SYS_exit_group,
    SYS_exit,         SYS_sched_yield,   SYS_restart_syscall, SYS_rt_sigaction,
#ifdef SYS_poll
    SYS_poll,
#endif
#ifdef SYS_newfstatat
    SYS_newfstatat,
#endif
};
/// What opens a file: those raise SIGSYS.
constexpr long opening[] = {
    SYS_openat,
#ifdef SYS_open
    SYS_open,
#endif
};

int broker = -1;  // of the one worker that a process is

/// Asks for a file, on behalf of the code that wanted to open it itself.
long ask_for(const char* path) {
  const std::size_t length = ::strnlen(path, 4096);
  struct {
    std::uint32_t kind, bytes;
  } head{static_cast<std::uint32_t>(Kind::open), static_cast<std::uint32_t>(length)};
  iovec parts[2] = {{&head, sizeof head}, {const_cast<char*>(path), length}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  // A stream socket takes what is this short whole, or there is nobody to talk to any more.
  if (::sendmsg(broker, &message, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof head + length))
    ::_exit(1);
  union {
    char bytes[CMSG_SPACE(sizeof(int))];
    cmsghdr aligned;
  } ancillary{};
  iovec part{&head, sizeof head};
  message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = ancillary.bytes;
  message.msg_controllen = sizeof ancillary.bytes;
  if (::recvmsg(broker, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL) != sizeof head) ::_exit(1);
  const cmsghdr* control = CMSG_FIRSTHDR(&message);
  if (control == nullptr || control->cmsg_type != SCM_RIGHTS) return -ENOENT;
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(control), sizeof descriptor);
  return descriptor;
}

void on_system_call(int, siginfo_t* info, void* context) {
  const int saved = errno;
  auto& machine_context = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  auto& result = machine_context.gregs[REG_RAX];
  const auto path = machine_context.gregs[info->si_syscall == SYS_openat ? REG_RSI : REG_RDI];
#elif defined(__aarch64__)
  auto& result = machine_context.regs[0];
  const auto path = machine_context.regs[1];
#else
  long result = 0, path = 0;
  static_cast<void>(machine_context);
#endif
  static_cast<void>(info);
  result = static_cast<std::remove_reference_t<decltype(result)>>(
      ask_for(reinterpret_cast<const char*>(path)));  // NOLINT(performance-no-int-to-ptr)
  errno = saved;
}

bool filter_system_calls() {
  if (machine == 0) return false;
  std::vector<sock_filter> program{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, machine, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
  };
  const auto answer = [&](long number, std::uint32_t action) {
    program.push_back(
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, action));
  };
  for (const long number : allowed) answer(number, SECCOMP_RET_ALLOW);
  for (const long number : opening) answer(number, SECCOMP_RET_TRAP);
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};

  struct sigaction action {};
  action.sa_sigaction = on_system_call;
  action.sa_flags = SA_SIGINFO;
  return ::sigaction(SIGSYS, &action, nullptr) == 0 &&
         ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

void limit(__rlimit_resource resource, std::uint64_t most) {
  rlimit now{};
  if (::getrlimit(resource, &now) != 0) return;
  now.rlim_cur = std::min<rlim_t>(most, now.rlim_max);
  ::setrlimit(resource, &now);
}

/// The field of /proc/self/statm: 0 is the address space, 1 what is resident. Pages.
std::uint64_t pages(int used, std::size_t field) {
  char text[256];
  const ssize_t n = used < 0 ? -1 : ::pread(used, text, sizeof text, 0);
  const char *at = text, *end = text + (n > 0 ? n : 0);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i <= field; ++i) {
    const auto [rest, error] = std::from_chars(at, end, value);
    if (error != std::errc()) return 0;
    at = rest == end ? rest : rest + 1;
  }
  return value;
}

std::uint64_t page_bytes() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

void leave_everything(int (&keep)[8]) {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) ::sigaction(number, &standard, nullptr);
  // A terminal and a service manager send these to all of a group: it is for the parent to end us.
  struct sigaction passed_over {};
  passed_over.sa_handler = SIG_IGN;
  for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM})
    ::sigaction(number, &passed_over, nullptr);
  // Out of the way of 3 to 10, where they are to be.
  for (int& fd : keep)
    if (fd >= 0) fd = ::fcntl(fd, F_DUPFD, 32);
  const int nothing = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) ::dup2(nothing, fd);
  unsigned next = 3;
  for (int& fd : keep)
    if (fd >= 0) fd = ::dup2(fd, static_cast<int>(next++));
  if (::syscall(SYS_close_range, next, ~0U, 0) != 0)  // before Linux 5.9
    for (long fd = next; fd < ::sysconf(_SC_OPEN_MAX); ++fd) ::close(static_cast<int>(fd));
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void confine(int socket, int used, std::uint64_t memory) {
  ::prctl(PR_SET_NAME, "vitrine-symbols");
  ::prctl(PR_SET_DUMPABLE, 0);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, 0);
  if (const std::uint64_t now = pages(used, 0); now != 0)
    limit(RLIMIT_AS, now * page_bytes() + memory);
  broker = socket;
  if (!filter_system_calls()) limit(RLIMIT_NOFILE, 0);
}

void allow_time(std::chrono::milliseconds time) {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto spent = std::chrono::seconds(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec);
  limit(RLIMIT_CPU, static_cast<std::uint64_t>(
                        (spent + std::chrono::ceil<std::chrono::seconds>(time)).count()) +
                        1);
}

std::uint64_t resident_bytes(int used) {
  return pages(used, 1) * page_bytes();
}

}  // namespace vitrine::symbol
