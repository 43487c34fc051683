#include "target/stopped_threads.hpp"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "target/proc_file.hpp"

namespace vitrine::target {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// Most threads stop within microseconds; asking again and again is then faster than to sleep.
constexpr auto short_wait = 200us;
constexpr auto nap = 100us;

/// Threads on their way to a stop at once. On a busy machine each takes as long as it waits for a
/// CPU; of many, one comes in each moment.
constexpr std::size_t max_at_once = 16;

/// When that many have not stopped in time, the others get a part of it: a process may have thousands
/// that do not.
constexpr std::size_t max_late = 16;
constexpr int part_of_deadline = 10;

/// The tracer of one visit. All calls come from one thread: the kernel wants that of a tracer.
class Tracer {
 public:
  Tracer(const Process& process, std::chrono::milliseconds deadline, const StoppedVisitor& visit)
      : process_(process), deadline_(deadline), visit_(visit) {}

  /// Whether one more may be asked to stop.
  [[nodiscard]] bool has_room() const { return asked_.size() < max_at_once; }
  [[nodiscard]] bool is_done() const { return asked_.empty(); }

  /// Asks a thread to stop.
  void ask(std::size_t index, pid_t tid) {
    if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) return visit_(index, refused(tid));
    // From now on nothing else can get its number; before, a thread of another process may have.
    const bool is_ours =
        ::faccessat(process_.proc_dir(), fmt::format("task/{}", tid).c_str(), F_OK, 0) == 0;
    ::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);  // ESRCH shows in the wait
    asked_.push_back({index, tid, is_ours, Clock::now()});
  }

  /// Visits a thread that has stopped since, if there is one, and lets it go on.
  bool take() {
    int status = 0;
    // Of this thread's alone: the caller's children are none of ours.
    const pid_t tid = ::waitpid(-1, &status, __WALL | __WNOTHREAD | WNOHANG);
    if (tid < 0) give_up([](const Asked&) { return true; });  // they ended, and were waited for
    if (tid <= 0) return false;
    const auto asked = std::find_if(asked_.begin(), asked_.end(),
                                    [&](const Asked& one) { return one.tid == tid; });
    if (asked == asked_.end()) {  // too late
      release(tid, status);
      return true;
    }
    const Asked one = *asked;
    asked_.erase(asked);
    auto pointer = WIFSTOPPED(status) && one.is_ours ? thread_pointer(tid) : ended(tid);
    if (pointer) {
      const ProcessMemory::ShortBudget short_budget(process_.memory());
      visit_(one.index, pointer);
    }
    release(tid, status);
    if (!pointer) visit_(one.index, pointer);
    return true;
  }

  /// Goes without those that took too long; else lets some time pass.
  void wait() {
    const auto now = Clock::now();
    give_up([&](const Asked& one) { return now - one.since >= budget(); });
    if (asked_.empty()) return;
    if (now - asked_.back().since < short_wait)
      ::sched_yield();
    else
      std::this_thread::sleep_for(nap);
  }

 private:
  struct Asked {
    std::size_t index = 0;
    pid_t tid = 0;
    bool is_ours = false;
    Clock::time_point since;
  };

  [[nodiscard]] std::chrono::milliseconds budget() const {
    return late_ < max_late ? deadline_ : deadline_ / part_of_deadline;
  }

  static Result<Address> ended(pid_t tid) {
    return fail(ErrorCode::not_found, fmt::format("thread {} has ended", tid));
  }

  /// Lets a stopped thread go on.
  static void release(pid_t tid, int status) {
    if (!WIFSTOPPED(status)) return;
    // A signal was on its way: pass it on. Any other stop has none.
    const bool signalled = (status >> 16) == 0;
    const long signal = signalled ? WSTOPSIG(status) : 0;
    ::ptrace(PTRACE_DETACH, tid, nullptr, signal);  // ESRCH: it was killed where it stood
  }

  template <class Which>
  void give_up(Which which) {
    std::vector<Asked> left;
    for (const Asked& one : std::exchange(asked_, {}))
      if (which(one))
        visit_(one.index, too_late(one.tid));
      else
        left.push_back(one);
    asked_ = std::move(left);
  }

  Result<Address> too_late(pid_t tid) {
    siginfo_t unchanged{};
    const int waited = ::waitid(P_PID, static_cast<id_t>(tid), &unchanged,
                                WEXITED | WSTOPPED | __WALL | WNOHANG | WNOWAIT);
    if (waited != 0) return ended(tid);
    const auto waited_for = budget();
    ++late_;
    return fail(ErrorCode::failed,
                fmt::format("thread {} did not stop within {} ms", tid, waited_for.count()),
                "it is in uninterruptible sleep, or waits for the child of a vfork: try again "
                "later, or read it in snapshot mode");
  }

  [[nodiscard]] Result<Address> refused(pid_t tid) const {
    return tl::unexpected(refusal(tid, errno));
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
  const StoppedVisitor& visit_;
  std::vector<Asked> asked_;  ///< to stop, in this order
  std::size_t late_ = 0;      ///< how many did not
};

}  // namespace

void visit_stopped(const Process& process, std::span<const pid_t> tids,
                   std::chrono::milliseconds deadline, const std::atomic<bool>* cancel,
                   const StoppedVisitor& visit) {
  std::thread([&] {
    Tracer tracer(process, deadline, visit);
    for (std::size_t next = 0; next < tids.size() || !tracer.is_done();) {
      if (cancel != nullptr && cancel->load()) return;
      if (tracer.take()) continue;
      // One more only when none stands still: none is to wait for others.
      if (next < tids.size() && tracer.has_room()) {
        tracer.ask(next, tids[next]);
        ++next;
      } else {
        tracer.wait();
      }
    }
  }).join();
}

}  // namespace vitrine::target
