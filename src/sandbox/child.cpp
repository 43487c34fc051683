#include "sandbox/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <initializer_list>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/signals.hpp"
#include "sandbox/work_budget.hpp"

namespace vitrine::sandbox {
namespace {

void keep_capabilities(std::initializer_list<int> kept) {
  __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct held[_LINUX_CAPABILITY_U32S_3] = {};
  __user_cap_data_struct rest[_LINUX_CAPABILITY_U32S_3] = {};
  if (kept.size() != 0 && ::syscall(SYS_capget, &head, held) == 0) {
    for (const int one : kept) {
      auto& word = rest[CAP_TO_INDEX(one)];
      word.permitted |= held[CAP_TO_INDEX(one)].permitted & CAP_TO_MASK(one);
      word.effective |= held[CAP_TO_INDEX(one)].effective & CAP_TO_MASK(one);
    }
  }
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  ::syscall(SYS_capset, &head, rest);
}

}  // namespace

int reset_inherited(int keep) {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) ::sigaction(number, &standard, nullptr);
  // A terminal and a service manager send these to all of a group: it is for the parent to end us.
  struct sigaction passed_over {};
  passed_over.sa_handler = SIG_IGN;
  for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM})
    ::sigaction(number, &passed_over, nullptr);
  const int first = 3;
  if (keep < first) keep = ::fcntl(keep, F_DUPFD, first);  // out of the way of 0 to 2
  const int nothing = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < first; ++fd) ::dup2(nothing, fd);
  if (keep != first) ::dup2(keep, first);
  if (::syscall(SYS_close_range, first + 1, ~0U, 0) != 0)  // before Linux 5.9
    for (long fd = first + 1; fd < ::sysconf(_SC_OPEN_MAX); ++fd) ::close(static_cast<int>(fd));
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  return first;
}

namespace {

/// Where memory runs out, the kernel ends this process, and not the one that works with it.
void be_first_without_memory() {
  const int file = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  constexpr char most[] = "1000";
  static_cast<void>(!::write(file, most, sizeof most - 1));
  ::close(file);
}

}  // namespace

void drop_privileges(const char* name, pid_t parent, std::initializer_list<int> kept) {
  ::prctl(PR_SET_NAME, name);
  be_first_without_memory();
  ::prctl(PR_SET_DUMPABLE, 0);
  keep_capabilities(kept);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);  // it went before it could have been noticed
  rlimit core{};
  if (::getrlimit(RLIMIT_CORE, &core) == 0) {
    core.rlim_cur = 0;
    ::setrlimit(RLIMIT_CORE, &core);
  }
}

namespace {

/// The children of a thread, for used_cpu_time(). Without a destructor: threads end their children
/// when their other thread-local objects go, in an unspecified order.
struct OwnChildren {
  std::array<pid_t, 64> alive{};  ///< 0: free
  std::chrono::nanoseconds of_ended{0};
  std::uint64_t process = 0;  ///< whose children they are (ProcessNumber); 0: there were none

  void add(pid_t pid) { replace(0, pid); }
  void remove(pid_t pid) { replace(pid, 0); }

 private:
  void replace(pid_t pid, pid_t by) {
    const auto place = std::find(alive.begin(), alive.end(), pid);
    if (place != alive.end()) *place = by;
  }
};
OwnChildren& own_children() {
  static thread_local OwnChildren children;
  const auto process = ProcessNumber::get();
  if (children.process != process) {  // those of another process
    children = {};
    children.process = process;
  }
  return children;
}

struct AliveChildren {
  std::atomic<int> number{0};
};
std::atomic<int>& alive_children() {
  return PerProcess<AliveChildren>::get().number;
}

std::chrono::nanoseconds duration_of(const timespec& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

std::chrono::nanoseconds duration_of(const timeval& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
}

std::chrono::nanoseconds now_of(clockid_t clock) {
  timespec time{};
  return ::clock_gettime(clock, &time) == 0 ? duration_of(time) : std::chrono::nanoseconds(0);
}

}  // namespace

std::chrono::nanoseconds used_cpu_time() {
  const OwnChildren& children = own_children();
  auto used = now_of(CLOCK_THREAD_CPUTIME_ID) + children.of_ended;
  for (const pid_t pid : children.alive) {
    clockid_t clock = 0;
    if (pid != 0 && ::clock_getcpuclockid(pid, &clock) == 0) used += now_of(clock);
  }
  return used;
}

namespace {

/// No flag, and no signal at its end. (qemu-user can make no such child.)
pid_t quiet_child() {
  const auto clone = [](unsigned long signal) {
    return static_cast<pid_t>(::syscall(SYS_clone, signal, nullptr, nullptr, nullptr, nullptr));
  };
  const pid_t pid = clone(0);
  return pid < 0 && errno == EINVAL ? clone(SIGCHLD) : pid;
}

constexpr auto time_to_end = std::chrono::seconds(1);

/// Children that were killed and have not ended. Never destroyed: no wait(2) for them at exit.
class Abandoned {
 public:
  static Abandoned& all() { return PerProcess<Abandoned>::get(); }
  void add(Child child) {
    const std::lock_guard lock(mutex_);
    children_.push_back(std::move(child));
  }
  void reap() {
    const std::lock_guard lock(mutex_);
    std::erase_if(children_,
                  [](Child& one) { return one.wait(std::chrono::milliseconds(0)).has_value(); });
  }

 private:
  std::mutex mutex_;
  std::vector<Child> children_;
};

}  // namespace

pid_t fork_sibling() {
  const unsigned long flags = CLONE_PARENT | SIGCHLD;
  return static_cast<pid_t>(::syscall(SYS_clone, flags, nullptr, nullptr, nullptr, nullptr));
}

Result<Child> Child::start(Kind kind, const std::function<void()>& life) {
  Abandoned::all().reap();
  pid_t pid = -1;
  {
    const SignalsBlocked blocked;
    pid = kind == Kind::forked ? ::fork() : quiet_child();
    if (pid == 0) {
      life();
      ::_exit(0);
    }
  }
  const int error = errno;
  if (pid < 0) return fail(ErrorCode::failed, fmt::format("cannot fork: {}", std::strerror(error)));
  return adopt(pid);
}

Child Child::adopt(pid_t pid) {
  FileDescriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!handle && errno == ESRCH) return {};  // it has ended, and the program has reaped it
  own_children().add(pid);
  ++alive_children();
  return {pid, std::move(handle)};
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      handle_(std::move(other.handle_)),
      owner_(other.owner_) {}

Child& Child::operator=(Child&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(handle_, other.handle_);
  std::swap(owner_, other.owner_);
  return *this;
}

void Child::kill() const noexcept {
  if (pid_ < 0 || !is_own()) return;
  // A program that reaps every child of its own may have reaped this one too: the number can be
  // another's by now, the handle cannot.
  if (handle_)
    ::syscall(SYS_pidfd_send_signal, handle_.get(), SIGKILL, nullptr, 0);
  else
    ::kill(pid_, SIGKILL);
}

/// By the handle, see kill(): the number may be that of another child of the program.
int Child::wait_for_end(std::chrono::nanoseconds& used) noexcept {
  siginfo_t info{};
  rusage usage{};
  while (::syscall(SYS_waitid, P_PIDFD, handle_.get(), &info, WEXITED | __WALL, &usage) != 0)
    if (errno != EINTR) return 0;
  used = duration_of(usage.ru_utime) + duration_of(usage.ru_stime);
  if (info.si_code == CLD_EXITED) return info.si_status << 8;
  return info.si_status | (info.si_code == CLD_DUMPED ? WCOREFLAG : 0);
}

int Child::reap() noexcept {
  std::chrono::nanoseconds used{0};
  const int status = wait_for_end(used);
  own_children().of_ended += used;
  forget();
  return status;
}

namespace {

/// Whether the process has ended by then, by its handle. Signals do not interrupt that.
bool ends_within(std::chrono::milliseconds time, const FileDescriptor& handle) {
  using Clock = std::chrono::steady_clock;
  pollfd ending{handle.get(), POLLIN, 0};
  for (const auto end = Clock::now() + time;;) {
    const int got = ::poll(&ending, 1, static_cast<int>(std::max<std::int64_t>(time.count(), 0)));
    if (got >= 0 || errno != EINTR) return got == 1;
    time = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
  }
}

}  // namespace

EndedChild Child::end_for_owner() noexcept {
  EndedChild ended{pid_, {}};
  if (pid_ < 0) return ended;
  if (!is_own()) {
    forget();
    return {};
  }
  kill();
  if (handle_ && ends_within(time_to_end, handle_)) {
    wait_for_end(ended.used);
    forget();
  } else {
    abandon();
  }
  return ended;
}

void Child::take_account(const EndedChild& ended) noexcept {
  own_children().remove(ended.pid);
  own_children().of_ended += ended.used;
}

int Child::alive() noexcept {
  return alive_children().load();
}

/// "12 (name) S 1 …": the name may hold anything.
bool Child::waits() const {
  const FileDescriptor file(
      ::open(fmt::format("/proc/{}/stat", pid_).c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 256> line{};
  const ssize_t n = file ? ::read(file.get(), line.data(), line.size()) : -1;
  const std::string_view text(line.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  const std::size_t end = text.rfind(')');
  return end == text.npos || end + 2 >= text.size() || text[end + 2] != 'R';
}

void Child::end() noexcept {
  if (pid_ < 0) return;
  if (!is_own()) return forget();
  kill();
  static_cast<void>(wait(time_to_end));
  abandon();  // if it is still there
}

void Child::abandon() noexcept {
  if (pid_ < 0) return;
  if (!is_own()) return forget();
  kill();
  Abandoned::all().add(std::move(*this));
}

std::optional<int> Child::wait(std::chrono::milliseconds time) {
  if (pid_ < 0) return 0;
  if (!is_own()) {
    forget();
    return 0;
  }
  if (!handle_) return wait_without_handle(time);
  if (!ends_within(time, handle_)) return std::nullopt;
  return reap();
}

/// This process has no room for a descriptor, or its kernel has no pidfds.
std::optional<int> Child::wait_without_handle(std::chrono::milliseconds time) {
  for (const auto end = std::chrono::steady_clock::now() + time;;) {
    int status = 0;
    const pid_t ended = ::waitpid(pid_, &status, __WALL | WNOHANG);
    if (ended != 0) {
      forget();
      return ended < 0 ? 0 : status;
    }
    if (std::chrono::steady_clock::now() >= end) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Child::forget() noexcept {
  if (pid_ > 0 && is_own()) {
    --alive_children();
    own_children().remove(pid_);
  }
  pid_ = -1;
  handle_ = FileDescriptor();
}

}  // namespace vitrine::sandbox
