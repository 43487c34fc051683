#include "target/held_program.hpp"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "elf/symbols.hpp"
#include "target/process.hpp"

namespace vitrine::target {
namespace {

#if defined(__x86_64__)
constexpr std::array<std::uint8_t, 1> breakpoint_bytes{0xcc};
constexpr Address after_breakpoint = 1;  // where the processor stops
#else
constexpr std::array<std::uint8_t, 4> breakpoint_bytes{0x00, 0x00, 0x20, 0xd4};
constexpr Address after_breakpoint = 0;
#endif

using Registers = user_regs_struct;

auto& program_counter(Registers& registers) {
#if defined(__x86_64__)
  return registers.rip;
#else
  return registers.pc;
#endif
}

bool transfer_registers(__ptrace_request request, pid_t pid, Registers& registers) {
  iovec vector{&registers, sizeof registers};
  return ::ptrace(request, pid, reinterpret_cast<void*>(NT_PRSTATUS), &vector) == 0;
}

/// Where the dynamic linker reports that its list of modules has changed, and where it reports how.
struct Announcement {
  Address function = 0;
  Address state = 0;  ///< of r_debug; 0: it changes only once, when all is done
};

std::optional<Announcement> announcement_of(const Process& process) {
  const Address linker = process.program_headers().interpreter;
  if (linker == 0) return std::nullopt;
  Memory& memory = process.memory();
  const auto image = elf::read_image(memory, linker);
  if (!image) return std::nullopt;
  const auto dynamic = elf::read_dynamic(memory, *image);
  if (!dynamic) return std::nullopt;
  constexpr std::array<std::string_view, 2> names{"_dl_debug_state", "_r_debug"};
  const auto symbols = elf::find_symbols(memory, *dynamic, names);
  if (!symbols || !(*symbols)[0]) return std::nullopt;
  const Address function = image->bias + (*symbols)[0]->value;
  if (!image->holds(function, breakpoint_bytes.size())) return std::nullopt;
  Announcement announcement{function, 0};
  if ((*symbols)[1])
    announcement.state = image->bias + (*symbols)[1]->value + offsetof(r_debug, r_state);
  return announcement;
}

/// Overwrites code, and puts it back when it goes. The kernel gives the process a page of its own
/// for that.
class Breakpoint {
 public:
  Breakpoint(pid_t pid, Address at) : pid_(pid), at_(at) {
    errno = 0;
    code_ = ::ptrace(PTRACE_PEEKTEXT, pid_, at_, nullptr);
    readable_ = errno == 0;
  }
  Breakpoint(const Breakpoint&) = delete;
  Breakpoint& operator=(const Breakpoint&) = delete;
  ~Breakpoint() { remove(); }

  bool insert() {
    if (!readable_) return false;
    long code = code_;
    std::memcpy(&code, breakpoint_bytes.data(), breakpoint_bytes.size());
    inserted_ = ::ptrace(PTRACE_POKETEXT, pid_, at_, code) == 0;
    return inserted_;
  }
  void remove() {
    if (std::exchange(inserted_, false)) ::ptrace(PTRACE_POKETEXT, pid_, at_, code_);
  }

 private:
  pid_t pid_;
  Address at_;
  long code_ = 0;
  bool readable_ = false;
  bool inserted_ = false;
};

bool is_event(int status, int event) {
  return status >> 8 == (SIGTRAP | event << 8);
}

constexpr std::chrono::milliseconds time_to_stop{100};

constexpr long hold_at_exec = PTRACE_O_TRACEEXEC;
constexpr long die_with_us = PTRACE_O_EXITKILL;  // as long as there may be a breakpoint in it

/// A stop of the whole process (job control), which is to last.
bool is_group_stop(int status) {
  return status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP;
}

/// What to pass on when it continues: a signal that was on its way, but not a stop of the tracer's.
int signal_of(int status) {
  return status >> 16 == 0 && WSTOPSIG(status) != SIGTRAP ? WSTOPSIG(status) : 0;
}

}  // namespace

Result<HeldProgram> HeldProgram::seize(pid_t child) {
  if (::ptrace(PTRACE_SEIZE, child, nullptr, hold_at_exec | die_with_us) != 0)
    return fail(
        errno == EPERM ? ErrorCode::not_permitted : ErrorCode::failed,
        fmt::format("cannot hold process {} at its start: {}", child, std::strerror(errno)));
  return HeldProgram(child);
}

HeldProgram::HeldProgram(HeldProgram&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), held_(std::exchange(other.held_, false)) {}

Result<int> HeldProgram::wait_for_stop(const std::atomic<bool>* stop) {
  held_ = false;
  for (;;) {
    int status = 0;
    const pid_t waited = ::waitpid(pid_, &status, __WALL | (stop != nullptr ? WNOHANG : 0));
    if (waited == pid_ && WIFSTOPPED(status)) {
      held_ = true;
      return status;
    }
    if (waited == pid_ || (waited < 0 && errno != EINTR)) {
      pid_ = -1;
      return fail(ErrorCode::not_found, "the program ended before its start");
    }
    if (stop == nullptr) continue;
    if (stop->load()) {
      ::kill(pid_, SIGKILL);  // with a breakpoint in it, it cannot go on without us
      ::waitpid(pid_, nullptr, __WALL);
      pid_ = -1;
      return fail(ErrorCode::interrupted, "interrupted before the start of the program");
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

Result<void> HeldProgram::wait_for_exec() {
  for (;;) {
    const auto status = TRY(wait_for_stop(nullptr));
    if (is_event(status, PTRACE_EVENT_EXEC)) return {};
    ::ptrace(PTRACE_CONT, pid_, nullptr, signal_of(status));
  }
}

Result<void> HeldProgram::run_to_libraries(const std::atomic<bool>* stop) {
  const auto process = Process::open(pid_);
  if (!process) return {};
  const auto announcement = announcement_of(*process);
  if (!announcement) return {};
  for (;;) {
    const auto there = TRY(run_to(announcement->function, stop));
    if (!there || announcement->state == 0) return {};
    const auto state = process->memory().read_value<int>(announcement->state, "r_state");
    if (!state || *state == r_debug::RT_CONSISTENT) return {};
    if (::ptrace(PTRACE_SINGLESTEP, pid_, nullptr, 0) != 0) return {};
    TRY(wait_for_stop(stop));
  }
}

/// Whether it got there; false: it is elsewhere, and cannot be brought there.
Result<bool> HeldProgram::run_to(Address at, const std::atomic<bool>* stop) {
  Breakpoint breakpoint(pid_, at);
  if (!breakpoint.insert()) return false;
  int signal = 0;
  for (;;) {
    ::ptrace(PTRACE_CONT, pid_, nullptr, signal);
    const auto status = TRY(wait_for_stop(stop));
    if (is_event(status, PTRACE_EVENT_EXEC)) return false;
    Registers registers{};
    if (WSTOPSIG(status) == SIGTRAP && status >> 16 == 0 &&
        transfer_registers(PTRACE_GETREGSET, pid_, registers) &&
        program_counter(registers) == at + after_breakpoint) {
      program_counter(registers) = at;
      return transfer_registers(PTRACE_SETREGSET, pid_, registers);
    }
    signal = signal_of(status);
  }
}

void HeldProgram::go_on() noexcept {
  if (!std::exchange(held_, false)) return;
  ::ptrace(PTRACE_SETOPTIONS, pid_, nullptr, hold_at_exec);
  ::ptrace(PTRACE_CONT, pid_, nullptr, 0);
}

Result<bool> HeldProgram::executed() {
  while (pid_ > 0 && !held_) {
    int status = 0;
    const pid_t waited = ::waitpid(pid_, &status, __WALL | WNOHANG);
    if (waited == 0 || (waited < 0 && errno == EINTR)) return false;
    if (waited < 0 || !WIFSTOPPED(status)) {
      pid_ = -1;
      return fail(ErrorCode::not_found, "the program has ended");
    }
    if (is_event(status, PTRACE_EVENT_EXEC)) {
      held_ = true;
      ::ptrace(PTRACE_SETOPTIONS, pid_, nullptr, hold_at_exec | die_with_us);
    } else if (is_group_stop(status)) {
      ::ptrace(PTRACE_LISTEN, pid_, nullptr, 0);
    } else {
      ::ptrace(PTRACE_CONT, pid_, nullptr, signal_of(status));
    }
  }
  return held_;
}

bool HeldProgram::release() noexcept {
  int signal = 0;
  if (pid_ > 0 && !held_ && ::ptrace(PTRACE_INTERRUPT, pid_, nullptr, 0) == 0) {
    // Only what is stopped can be let go, with the signal that it may have been stopped by. Left
    // in a stop of the whole process, it stays there. If it has ended, its status belongs to other code.
    // A first thread that has ended before the others, or waits in vfork, comes to no stop.
    siginfo_t info{};
    const auto end = std::chrono::steady_clock::now() + time_to_stop;
    constexpr int states = WSTOPPED | WEXITED | WNOWAIT | WNOHANG | __WALL;
    while (::waitid(P_PID, static_cast<id_t>(pid_), &info, states) == 0 && info.si_pid == 0) {
      if (std::chrono::steady_clock::now() >= end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    int status = 0;
    if (info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED) {
      held_ = ::waitpid(pid_, &status, __WALL) == pid_ && WIFSTOPPED(status);
      if (held_) signal = signal_of(status);
    }
  }
  if (std::exchange(held_, false)) ::ptrace(PTRACE_DETACH, pid_, nullptr, signal);
  pid_ = -1;
  return true;
}

}  // namespace vitrine::target
