#include "target/stopped_threads.hpp"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "target/permission.hpp"
#include "target/proc_file.hpp"

namespace vitrine::target {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// Most threads stop within microseconds; asking again and again is then faster than to sleep.
constexpr auto impatience = 200us;
constexpr auto nap = 100us;

/// The tracer of one visit. All calls come from one thread: the kernel wants that of a tracer.
class Tracer {
 public:
  Tracer(const Process& process, std::chrono::milliseconds deadline)
      : process_(process), deadline_(deadline) {}

  /// Stops a thread. On success it stands still until release().
  Result<Address> stop(pid_t tid) {
    if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0)
      return tl::unexpected(refusal(tid, errno));
    // From now on nothing else can get its number; before, a thread of another process may have.
    const bool is_ours =
        ::faccessat(process_.proc_dir(), fmt::format("task/{}", tid).c_str(), F_OK, 0) == 0;
    ::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);  // ESRCH shows in the wait
    if (auto waited = wait(tid); !waited) return tl::unexpected(waited.error());
    auto tp = is_ours ? thread_pointer(tid) : Result<Address>(ended(tid));
    if (!tp) release(tid);
    return tp;
  }

  /// Lets a stopped thread go on.
  void release(pid_t tid) {
    // A signal was on its way: pass it on. Any other stop has none.
    const bool signalled = (status_ >> 16) == 0;
    const long signal = signalled ? WSTOPSIG(status_) : 0;
    // ESRCH: it was killed where it stood, and waits to be reaped by us.
    if (::ptrace(PTRACE_DETACH, tid, nullptr, signal) != 0) late_.push_back(tid);
  }

  /// Lets go of the threads that have stopped, or died, too late.
  void release_late() {
    for (std::size_t i = 0; i < late_.size();) {
      const pid_t tid = late_[i];
      const pid_t waited = ::waitpid(tid, &status_, __WALL | WNOHANG);
      if (waited == 0) {
        ++i;
        continue;
      }
      late_[i] = late_.back();
      late_.pop_back();
      if (waited == tid && WIFSTOPPED(status_)) release(tid);
    }
  }

 private:
  static tl::unexpected<Error> ended(pid_t tid) {
    return fail(ErrorCode::not_found, fmt::format("thread {} has ended", tid));
  }

  Result<void> wait(pid_t tid) {
    const auto begin = Clock::now();
    for (;;) {
      const pid_t waited = ::waitpid(tid, &status_, __WALL | WNOHANG);
      if (waited == tid && WIFSTOPPED(status_)) return {};
      if (waited != 0) return ended(tid);
      const auto waiting = Clock::now() - begin;
      if (waiting >= deadline_) break;
      if (waiting < impatience)
        ::sched_yield();
      else
        std::this_thread::sleep_for(nap);
    }
    late_.push_back(tid);
    return fail(ErrorCode::failed,
                fmt::format("thread {} did not stop within {} ms", tid, deadline_.count()),
                "it is in uninterruptible sleep, or waits for the child of a vfork: try again "
                "later, or read it in snapshot mode");
  }

  Error refusal(pid_t tid, int error) const {
    if (error == ESRCH) return {ErrorCode::not_found, fmt::format("thread {} has ended", tid), {}};
    const auto status = read_file_at(process_.proc_dir(), fmt::format("task/{}/status", tid), 4096);
    if (!status) return {ErrorCode::not_found, fmt::format("thread {} has ended", tid), {}};
    const auto tracer = status_field(*status, "TracerPid");
    if (tracer && *tracer != "0")
      return {ErrorCode::not_permitted,
              fmt::format("thread {} is already traced, by process {}", tid, *tracer),
              "end that debugger or strace, or read in snapshot mode"};
    return access_refused(process_.pid(), process_.proc_dir(), "stop a thread of");
  }

  static Result<Address> thread_pointer(pid_t tid) {
    std::uint64_t value = 0;
#if defined(__x86_64__)
    constexpr auto arch_prctl = static_cast<__ptrace_request>(30);  // PTRACE_ARCH_PRCTL
    constexpr long get_fs = 0x1003;                                 // ARCH_GET_FS
    const long done = ::ptrace(arch_prctl, tid, &value, get_fs);
#else
    iovec into{&value, sizeof value};
    const long done = ::ptrace(PTRACE_GETREGSET, tid, reinterpret_cast<void*>(NT_ARM_TLS), &into);
#endif
    if (done == 0) return value;
    return fail(ErrorCode::failed, fmt::format("thread {}: its thread pointer cannot be read: {}",
                                               tid, std::strerror(errno)));
  }

  const Process& process_;
  const std::chrono::milliseconds deadline_;
  int status_ = 0;           // of the last wait
  std::vector<pid_t> late_;  // seized, and not released yet
};

}  // namespace

void visit_stopped(const Process& process, std::span<const pid_t> tids,
                   std::chrono::milliseconds deadline, const std::atomic<bool>* cancel,
                   const StoppedVisitor& visit) {
  std::thread([&] {
    Tracer tracer(process, deadline);
    for (std::size_t i = 0; i < tids.size(); ++i) {
      if (cancel != nullptr && cancel->load()) return;
      const auto stopped = tracer.stop(tids[i]);
      visit(i, stopped);
      if (stopped) tracer.release(tids[i]);
      tracer.release_late();
    }
  }).join();
}

}  // namespace vitrine::target
