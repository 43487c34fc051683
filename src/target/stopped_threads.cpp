#include "target/stopped_threads.hpp"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/file_descriptor.hpp"
#include "sandbox/child.hpp"
#include "target/proc_file.hpp"
#include "target/threads.hpp"

namespace vitrine::target {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// Most threads stop within microseconds; asking again and again is then faster than to sleep.
constexpr auto short_wait = 200us;
constexpr auto nap = 100us;

/// Threads on their way to a stop at once. On a busy machine each takes as long as it waits for a
/// CPU; of many, they come one by one.
constexpr std::size_t max_at_once = 16;

/// When that many have not stopped in time, the others get a part of it: a process may have thousands
/// that do not.
constexpr std::size_t max_late = 16;
constexpr int part_of_deadline = 10;

/// What the tracer reports of one thread.
struct Report {
  enum class What : std::uint32_t {
    stopped,  ///< value: its thread pointer. It stays stopped until the tracer hears of the visit
    ended,
    refused,     ///< value: errno
    late,        ///< value: milliseconds it was waited for
    no_pointer,  ///< value: errno
  };
  std::uint32_t index = 0;
  What what = What::ended;
  std::uint64_t value = 0;
};

/// Returns when a thread that is reported to stand still has been visited.
using Reporter = std::function<void(const Report&)>;

/// The tracer of one visit. All calls come from one thread: the kernel wants that of a tracer.
class Tracer {
 public:
  /// `seizing`: index + 1 of a thread that is being seized, which may take as long as its process
  /// takes to execute another program; else 0.
  Tracer(std::chrono::milliseconds deadline, Reporter report, std::atomic<std::uint32_t>& seizing)
      : deadline_(deadline), report_(std::move(report)), seizing_(seizing) {}

  /// Ends early when `cancel` becomes true; null: it does not.
  void run(std::span<const pid_t> tids, const std::atomic<bool>* cancel) {
    for (std::size_t next = 0; next < tids.size() || !asked_.empty();) {
      if (cancel != nullptr && cancel->load()) return;
      if (take()) continue;
      // One more only when none is stopped: none must wait for others.
      if (next < tids.size() && asked_.size() < max_at_once) {
        ask(static_cast<std::uint32_t>(next), tids[next]);
        ++next;
      } else {
        wait();
      }
    }
  }

 private:
  /// Asks a thread to stop.
  void ask(std::uint32_t index, pid_t tid) {
    seizing_ = index + 1;
    const long seized = ::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr);
    const int error = errno;
    seizing_ = 0;
    if (seized != 0)
      return report_({index, Report::What::refused, static_cast<std::uint64_t>(error)});
    ::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);  // ESRCH shows in the wait
    asked_.push_back({index, tid, Clock::now()});
  }

  /// Reports a thread that has stopped since, if there is one, and lets it go on.
  bool take() {
    int status = 0;
    // Of this thread's alone: the caller's children do not belong to the tracer.
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
    const Report report = WIFSTOPPED(status) ? thread_pointer(one) : Report{one.index};
    if (report.what == Report::What::stopped) report_(report);
    release(tid, status);
    if (report.what != Report::What::stopped) report_(report);
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

  struct Asked {
    std::uint32_t index = 0;
    pid_t tid = 0;
    Clock::time_point since;
  };

  [[nodiscard]] std::chrono::milliseconds budget() const {
    return late_ < max_late ? deadline_ : deadline_ / part_of_deadline;
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
        report_(too_late(one));
      else
        left.push_back(one);
    asked_ = std::move(left);
  }

  Report too_late(const Asked& one) {
    siginfo_t unchanged{};
    const int waited = ::waitid(P_PID, static_cast<id_t>(one.tid), &unchanged,
                                WEXITED | WSTOPPED | __WALL | WNOHANG | WNOWAIT);
    if (waited != 0) return {one.index};
    const auto waited_for = budget();
    ++late_;
    return {one.index, Report::What::late, static_cast<std::uint64_t>(waited_for.count())};
  }

  static Report thread_pointer(const Asked& one) {
    std::uint64_t value = 0;
#if defined(__x86_64__)
    constexpr auto arch_prctl = static_cast<__ptrace_request>(30);  // PTRACE_ARCH_PRCTL
    constexpr long get_fs = 0x1003;                                 // ARCH_GET_FS
    const long done = ::ptrace(arch_prctl, one.tid, &value, get_fs);
#else
    iovec into{&value, sizeof value};
    const long done =
        ::ptrace(PTRACE_GETREGSET, one.tid, reinterpret_cast<void*>(NT_ARM_TLS), &into);
#endif
    if (done == 0) return {one.index, Report::What::stopped, value};
    return {one.index, Report::What::no_pointer, static_cast<std::uint64_t>(errno)};
  }

  const std::chrono::milliseconds deadline_;
  Reporter report_;
  std::atomic<std::uint32_t>& seizing_;
  std::vector<Asked> asked_;  ///< to stop, in this order
  std::size_t late_ = 0;      ///< how many did not
};

/// What a report means for the caller that asked for the visit.
class Visits {
 public:
  Visits(const Process& process, std::span<const pid_t> tids, const StoppedVisitor& visit)
      : process_(process), tids_(tids), visit_(visit), reported_(tids.size()) {}

  /// The process, or thread, that traces for these visits.
  void are_traced_by(pid_t tracer) { own_tracer_ = tracer; }

  void take(const Report& report) {
    if (report.index >= tids_.size() || reported_[report.index]) return;
    reported_[report.index] = true;
    const pid_t tid = tids_[report.index];
    if (report.what != Report::What::stopped || !is_of_process(tid))
      return visit_(report.index, tl::unexpected(error_of(report, tid)));
    const ProcessMemory::ShortBudget short_budget(process_.memory());
    visit_(report.index, report.value);
  }

  /// All without a report.
  void give_up(const Error& error) {
    for (std::size_t i = 0; i < tids_.size(); ++i)
      if (!reported_[i]) {
        reported_[i] = true;
        visit_(i, tl::unexpected(error));
      }
  }

 private:
  /// While it is traced nothing else can get its number; before, a thread of another process may
  /// have.
  [[nodiscard]] bool is_of_process(pid_t tid) const {
    return ::faccessat(process_.proc_dir(), fmt::format("task/{}", tid).c_str(), F_OK, 0) == 0;
  }

  [[nodiscard]] Error error_of(const Report& report, pid_t tid) const {
    switch (report.what) {
      case Report::What::stopped:
      case Report::What::ended:
        break;
      case Report::What::refused:
        return refusal(tid, static_cast<int>(report.value));
      case Report::What::late:
        return {ErrorCode::failed,
                fmt::format("thread {} did not stop within {} ms", tid, report.value),
                "it is in uninterruptible sleep, or waits for the child of a vfork: try again "
                "later, or read it in snapshot mode"};
      case Report::What::no_pointer:
        return {ErrorCode::failed,
                fmt::format("thread {}: its thread pointer cannot be read: {}", tid,
                            std::strerror(static_cast<int>(report.value))),
                {}};
    }
    return ended(tid);
  }

  static Error ended(pid_t tid) {
    return {ErrorCode::not_found, fmt::format("thread {} has ended", tid), {}};
  }

  [[nodiscard]] Error refusal(pid_t tid, int error) const {
    // For a thread that is ending, ptrace fails with EPERM.
    if (error == ESRCH || !is_live(process_.proc_dir(), tid)) return ended(tid);
    const auto tracer = tracer_of(process_.proc_dir(), tid);
    // Traced by this tracer: another thread, seized before, has executed a program and now has the
    // leader's number.
    if (!tracer || tracer->pid == own_tracer_) return ended(tid);
    if (tracer->pid != 0)
      return {ErrorCode::not_permitted,
              fmt::format("thread {} is already traced, by process {}", tid, tracer->name()),
              "end that debugger or strace, or read in snapshot mode"};
    return access_refused(process_.pid(), process_.proc_dir(), "stop a thread of");
  }

  const Process& process_;
  std::span<const pid_t> tids_;
  const StoppedVisitor& visit_;
  std::vector<bool> reported_;
  pid_t own_tracer_ = -1;
};

/// Beyond the deadline, without a word from the tracing process, before it counts as stuck.
constexpr auto silence = 500ms;
/// It looks at the caller's wish to end as often.
constexpr int look_interval = 10;  // milliseconds
constexpr char go_on = 1;

using Seizing = std::atomic<std::uint32_t>;
static_assert(Seizing::is_always_lock_free);

/// Memory that the tracing process shares with us.
class SharedSeizing {
 public:
  SharedSeizing()
      : at_(::mmap(nullptr, sizeof(Seizing), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                   0)) {
    if (*this) new (at_) Seizing(0);
  }
  SharedSeizing(const SharedSeizing&) = delete;
  SharedSeizing& operator=(const SharedSeizing&) = delete;
  ~SharedSeizing() {
    if (*this) ::munmap(at_, sizeof(Seizing));
  }
  explicit operator bool() const { return at_ != MAP_FAILED; }
  Seizing& operator*() const { return *static_cast<Seizing*>(at_); }

 private:
  void* at_;
};

[[noreturn]] void trace_in_child(int socket, pid_t parent, std::span<const pid_t> tids,
                                 std::chrono::milliseconds deadline, Seizing& seizing) {
  socket = sandbox::reset_inherited(socket);
  sandbox::drop_privileges("vitrine-tracer", parent, {CAP_SYS_PTRACE});
  const auto report = [&](const Report& one) {
    if (::send(socket, &one, sizeof one, MSG_NOSIGNAL) != sizeof one) ::_exit(0);
    char go = 0;
    if (one.what == Report::What::stopped && ::recv(socket, &go, 1, 0) != 1) ::_exit(0);
  };
  Tracer(deadline, report, seizing).run(tids, nullptr);
  ::_exit(0);
}

/// False: no such process can be made.
bool visit_by_process(Visits& visits, const Process& process, std::span<const pid_t> tids,
                      std::chrono::milliseconds deadline, const std::atomic<bool>* cancel) {
  const SharedSeizing seizing;
  int pair[2];
  if (!seizing || ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return false;
  const FileDescriptor own_end(pair[0]);
  FileDescriptor its(pair[1]);
  const pid_t parent = ::getpid();
  auto child = sandbox::Child::start(
      sandbox::Kind::forked, [&] { trace_in_child(its.get(), parent, tids, deadline, *seizing); });
  if (!child) return false;
  its = FileDescriptor();
  visits.are_traced_by(child->pid());
  // At its end the kernel lets go of all that it traces.
  for (auto last = Clock::now();;) {
    if (cancel != nullptr && cancel->load()) return true;
    pollfd readable{own_end.get(), POLLIN, 0};
    if (::poll(&readable, 1, look_interval) > 0) {
      Report report;
      if (::recv(own_end.get(), &report, sizeof report, 0) != sizeof report) break;
      visits.take(report);
      if (report.what == Report::What::stopped)
        static_cast<void>(::send(own_end.get(), &go_on, sizeof go_on, MSG_NOSIGNAL));
      last = Clock::now();
    } else if (Clock::now() - last > deadline + silence && child->waits()) {
      visits.give_up(
          (*seizing).load() != 0
              ? Error{ErrorCode::failed,
                      fmt::format("no thread of process {} can be stopped: it is executing another "
                                  "program, and that does not end",
                                  process.pid()),
                      "read it in snapshot mode"}
              : Error{ErrorCode::failed, "the process that stops threads does not respond", {}});
      return true;
    }
  }
  visits.give_up({ErrorCode::failed, "the process that stops threads has ended", {}});
  return true;
}

void visit_by_thread(Visits& visits, std::span<const pid_t> tids,
                     std::chrono::milliseconds deadline, const std::atomic<bool>* cancel) {
  std::exception_ptr failure;
  const auto visit = [&] {
    try {
      visits.are_traced_by(::gettid());
      Seizing seizing = 0;
      Tracer(
          deadline, [&](const Report& report) { visits.take(report); }, seizing)
          .run(tids, cancel);
    } catch (...) {
      failure = std::current_exception();
    }
  };
  try {
    std::thread(visit).join();
  } catch (const std::system_error&) {
    visits.give_up({ErrorCode::failed, "no thread can be started to stop threads of the process",
                    "allow more processes (RLIMIT_NPROC, pids.max)"});
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

std::string OtherTracer::name() const {
  return comm.empty() ? std::to_string(pid) : fmt::format("{} ({})", pid, comm);
}

std::optional<OtherTracer> tracer_of(int proc_dir, pid_t tid) {
  const auto status = read_file_at(proc_dir, fmt::format("task/{}/status", tid), 4096);
  if (!status) return std::nullopt;
  OtherTracer tracer;
  const auto field = status_field(*status, "TracerPid");
  if (!field || *field == "0") return tracer;
  std::from_chars(field->data(), field->data() + field->size(), tracer.pid);
  if (auto comm = read_file_at(AT_FDCWD, fmt::format("/proc/{}/comm", tracer.pid), 64)) {
    if (comm->ends_with('\n')) comm->pop_back();
    tracer.comm = std::move(*comm);
  }
  return tracer;
}

void visit_stopped(const Process& process, std::span<const pid_t> tids,
                   std::chrono::milliseconds deadline, const std::atomic<bool>* cancel,
                   const StoppedVisitor& visit) {
  Visits visits(process, tids, visit);
  // Yama's restriction allows a process to trace its descendants, and a child of it to trace none.
  const bool only_descendants = yama_scope() == 1 && !effective_capability(CAP_SYS_PTRACE);
  if (only_descendants || !visit_by_process(visits, process, tids, deadline, cancel))
    visit_by_thread(visits, tids, deadline, cancel);
}

}  // namespace vitrine::target
