#include "sandbox/confinement.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>

#include "base/file_descriptor.hpp"
#include "sandbox/channel.hpp"
#include "sandbox/child.hpp"
#include "sandbox/worker.hpp"

namespace vitrine::sandbox {

UsedMemory used_memory(const FileDescriptor& statm) {
  char text[256];
  const ssize_t n = statm ? ::pread(statm.get(), text, sizeof text, 0) : -1;
  if (n <= 0) return {};
  std::uint64_t pages[6] = {};  // size, resident, shared, text, lib, data
  const char *at = text, *end = text + n;
  for (std::uint64_t& value : pages) {
    const auto [rest, error] = std::from_chars(at, end, value);
    if (error != std::errc() || rest == end) return {};
    at = rest + 1;
  }
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return {pages[0] * page, pages[1] * page, pages[5] * page};
}

namespace {

std::string text_of_file(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text(4096, '\0');
  const ssize_t n = file ? ::read(file.get(), text.data(), text.size()) : -1;
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  return text;
}

/// Of a control group and those around it; the largest number: there is none. `member`: how its line of
/// /proc/self/cgroup goes on before its path; `root` and `file`: where its limit is.
std::uint64_t limit_of_group(std::string_view member, const char* root, const char* file) {
  std::uint64_t least = ~std::uint64_t{0};
  const std::string groups = '\n' + text_of_file("/proc/self/cgroup");
  const std::size_t at = groups.rfind(member);
  if (at == std::string::npos) return least;
  const std::size_t begin = at + member.size();
  std::string path = groups.substr(begin, groups.find('\n', begin) - begin);
  for (;;) {
    const std::string text = text_of_file(root + path + file);
    std::uint64_t bytes = 0;
    // Version 1 writes a number near 2^63 for none.
    if (std::from_chars(text.data(), text.data() + text.size(), bytes).ec == std::errc() &&
        bytes >> 62 == 0)
      least = std::min(least, bytes);
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos || path.size() <= 1) return least;
    path.resize(slash);
  }
}

}  // namespace

std::uint64_t share_of_memory(unsigned parts) {
  // Version 2, and version 1 where the memory controller is still there.
  static const std::uint64_t limit =
      std::min(limit_of_group("\n0::", "/sys/fs/cgroup", "/memory.max"),
               limit_of_group(":memory:", "/sys/fs/cgroup/memory", "/memory.limit_in_bytes"));
  return limit == ~std::uint64_t{0} ? limit : limit / parts;
}

namespace {

int broker = -1;  // of the one worker that a process is

/// Asks for a file. A negative error number: it is not to be had.
long ask_for(std::uint32_t root, const char* path) {
  const std::size_t length = ::strnlen(path, 4096);
  struct {
    std::uint32_t kind, bytes;
  } head{static_cast<std::uint32_t>(MessageKind::open),
         static_cast<std::uint32_t>(sizeof root + length)};
  iovec parts[3] = {{&head, sizeof head}, {&root, sizeof root}, {const_cast<char*>(path), length}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 3;
  // A stream socket takes what is this short whole, or the peer has gone.
  if (::sendmsg(broker, &message, MSG_NOSIGNAL) !=
      static_cast<ssize_t>(sizeof head + sizeof root + length))
    ::_exit(1);
  sandbox::PassedDescriptor passed;
  iovec part{&head, sizeof head};
  message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  passed.expect(message);
  if (::recvmsg(broker, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL) != sizeof head) ::_exit(1);
  const int descriptor = passed.received(message);
  return descriptor < 0 ? -ENOENT : descriptor;
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
      ask_for(any_root, reinterpret_cast<const char*>(path)));  // NOLINT(performance-no-int-to-ptr)
  errno = saved;
}

bool filter_system_calls() {
  const auto& filter = worker_filter();
  struct sigaction action {};
  action.sa_sigaction = on_system_call;
  action.sa_flags = SA_SIGINFO;
  return ::sigaction(SIGSYS, &action, nullptr) == 0 && filter && filter->install();
}

void limit(__rlimit_resource resource, std::uint64_t most) {
  rlimit now{};
  if (::getrlimit(resource, &now) != 0) return;
  now.rlim_cur = std::min<rlim_t>(most, now.rlim_max);
  ::setrlimit(resource, &now);
}

rlim_t longest_time = 0;  // that this process can be allowed; seconds

}  // namespace

void confine(int socket, pid_t parent, const char* name, std::uint64_t memory, std::uint64_t data) {
  sandbox::drop_privileges(name, parent,
                           {});  // root or not, it keeps nothing: what opens files for it does
  limit(RLIMIT_FSIZE, 0);
  if (const UsedMemory now =
          used_memory(FileDescriptor(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC)));
      now.address_space != 0) {
    limit(RLIMIT_AS, now.address_space + memory);
    // Files that are mapped to be read are none of it: their pages are the kernel's to drop.
    if (data < memory) limit(RLIMIT_DATA, now.data + data);
  }
  rlimit time{};
  if (::getrlimit(RLIMIT_CPU, &time) == 0) longest_time = time.rlim_max;
  broker = socket;
  // A kernel without filters (qemu-user has none either): what is dropped above, and the limits,
  // hold all the same. To forbid descriptors instead would forbid the files to parse, too.
  static_cast<void>(filter_system_calls());
}

void allow_time(std::chrono::milliseconds time) {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto spent = std::chrono::seconds(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec);
  const auto wanted = (spent + std::chrono::ceil<std::chrono::seconds>(time)).count() + 1;
  const rlimit allowed{std::min(static_cast<rlim_t>(wanted), longest_time), longest_time};
  ::syscall(SYS_setrlimit, RLIMIT_CPU, &allowed);  // libc's could be done to others: not allowed
}

const Result<sandbox::Filter>& worker_filter() {
  // What libelf, libdw, malloc and vitrine's loop need: of each the old and the new form. Nothing that
  // could be done to another process is among them, such as tgkill or prlimit64.
  // Never destroyed: threads may start workers while the process ends.
  static const auto& filter =
      *new auto(sandbox::SystemCalls()
                    .allow({"read",         "pread64",      "lseek",         "close",
                            "fstat",        "newfstatat",   "mmap",          "munmap",
                            "mremap",       "brk",          "madvise",       "mprotect",
                            "sendmsg",      "recvmsg",      "poll",          "ppoll",
                            "futex",        "getrandom",    "clock_gettime", "getrusage",
                            "setrlimit",    "getpid",       "gettid",        "rt_sigprocmask",
                            "rt_sigreturn", "rt_sigaction", "sched_yield",   "restart_syscall",
                            "rseq",         "exit",         "exit_group"})
                    // A tracer that has put a probe into our libraries makes these in our name.
                    .allow({"uretprobe", "uprobe"})
                    .trap({"openat", "open"})
                    .compile());
  return filter;
}

bool is_worker() {
  return broker >= 0;
}

FileDescriptor ask_for_file(std::uint32_t root, const std::string& path) {
  return FileDescriptor(broker < 0 ? -1 : static_cast<int>(ask_for(root, path.c_str())));
}

}  // namespace vitrine::sandbox
