#include "target/deputy.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "target/deputy_process.hpp"
#include "target/proc_file.hpp"

namespace vitrine::target {
namespace {

using namespace std::chrono_literals;

constexpr int most_attempts = 3;       // of deputies that end by what is done to them
constexpr std::size_t most_stuck = 8;  // that cannot even be killed
constexpr auto time_to_die = 1s;
constexpr auto time_to_run = 10s;  // on a machine that has much else to do

/// Made before the first clone: nothing may be allocated after it.
const confine::Filter* deputy_filter() {
  static const auto filter =
      confine::SystemCalls()
          .allow({"process_vm_readv", "pread64", "recvmsg", "sendmsg", "close", "clock_gettime",
                  "sched_getaffinity", "restart_syscall", "rt_sigreturn", "exit_group"})
          // A tracer that has put a probe into our libraries makes these in our name.
          .allow({"uretprobe", "uprobe"})
          .compile();
  return filter ? &*filter : nullptr;
}

}  // namespace

Deputy& Deputy::of_this_thread() {
  thread_local Deputy deputy;
  return deputy;
}

Deputy::~Deputy() {
  forget_after_fork();
  dismiss();
  for (child::Child& one : stuck_)
    if (!one.wait(0ms)) one.forget();  // it ends when it can, and is init's then
}

void Deputy::Unmap::operator()(Desk* desk) const {
  ::munmap(desk, sizeof *desk);
}

/// A process that was forked from the one that has the deputy shares none of it: the desk is not
/// mapped there, and what is at its place is not ours.
void Deputy::forget_after_fork() {
  if (owner_ == -1 || owner_ == ::getpid()) return;
  static_cast<void>(desk_.release());
  child_.forget();
  for (child::Child& one : stuck_) one.forget();
  stuck_.clear();
  socket_ = FileDescriptor();
  owner_ = -1;
}

bool Deputy::begin() {
  std::erase_if(stuck_, [](child::Child& one) { return one.wait(0ms).has_value(); });
  if (stuck_.size() >= most_stuck) return false;
  const auto* filter = deputy_filter();
  void* room =
      ::mmap(nullptr, sizeof(Desk), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return false;
  desk_.reset(new (room) Desk);
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return false;
  socket_ = FileDescriptor(pair[0]);
  const FileDescriptor its(pair[1]);
  const pid_t parent = ::getpid();
  auto child =
      child::Child::start(child::Kind::quiet, [&] { serve(*desk_, its.get(), parent, filter); });
  // Whom our program forks next has no business at it.
  ::madvise(room, sizeof(Desk), MADV_DONTFORK);
  if (!child) return false;
  child_ = std::move(*child);
  owner_ = parent;
  return child_.handle() >= 0;
}

void Deputy::dismiss() {
  socket_ = FileDescriptor();
  if (child_) {
    child_.kill();
    const auto end = Clock::now() + time_to_die;
    while (child_ && Clock::now() < end) static_cast<void>(child_.wait(20ms));
    if (child_) stuck_.push_back(std::move(child_));
  }
}

Deputy::Answer Deputy::ask(const Question& question, Clock::duration time) {
  forget_after_fork();
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    if (!child_ && !begin()) break;
    desk_->tid = question.file >= 0 ? Desk::of_file : question.tid;
    desk_->one_by_one = question.one_by_one;
    desk_->count = static_cast<std::uint32_t>(question.parts.size());
    std::ranges::copy(question.parts, desk_->parts);
    desk_->done = 0;
    const std::uint32_t number = desk_->asked.load() + 1;
    desk_->asked = number;
    if (question.file >= 0 || desk_->deputy_sleeps.load() != 0) ring(socket_.get(), question.file);
    const Outcome outcome = wait(number, time);
    // Who stalls is of no use any more. The desk is, until there is another.
    if (outcome != Outcome::answered) dismiss();
    if (outcome == Outcome::ended) continue;
    const std::uint64_t done = std::min<std::uint64_t>(desk_->done.load(), Desk::most_bytes);
    const bool stalled = outcome == Outcome::stalled;
    return {{desk_->bytes, static_cast<std::size_t>(done)}, stalled ? 0 : desk_->error, stalled};
  }
  return {{}, EAGAIN, false};
}

Deputy::Outcome Deputy::wait(std::uint32_t number, Clock::duration time) {
  const auto answered = [&] { return desk_->answered.load() == number; };
  if (spin_.until(answered)) return Outcome::answered;
  const auto begin = Clock::now();
  auto until = begin + time;
  desk_->asker_sleeps = 1;
  while (!answered()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    pollfd either[] = {{socket_.get(), POLLIN, 0}, {child_.handle(), POLLIN, 0}};
    ::poll(either, 2, static_cast<int>(std::max(left, 0ms).count()));
    char byte = 0;
    if (either[0].revents != 0) static_cast<void>(::recv(socket_.get(), &byte, 1, MSG_DONTWAIT));
    if (answered()) break;
    if (either[1].revents != 0) return Outcome::ended;
    const auto now = Clock::now();
    if (now < until) continue;
    if (is_stuck(number) || now - begin > time + time_to_run)
      return answered() ? Outcome::answered : Outcome::stalled;
    until = now + 10ms;
  }
  desk_->asker_sleeps = 0;
  return Outcome::answered;
}

/// Whether it waits for what it is to read, and not for a processor, or for us.
bool Deputy::is_stuck(std::uint32_t number) {
  const auto line = read_file_at(AT_FDCWD, fmt::format("/proc/{}/stat", child_.pid()), 4096);
  const auto stat = line.and_then(parse_stat);
  if (!stat) return true;
  if (stat->state == 'S' && desk_->deputy_sleeps.load() != 0) {
    ring(socket_.get());
    return false;
  }
  if (desk_->taken.load() != number) return stat->state == 'T';  // it has only just begun to live
  return stat->state != 'R';
}

}  // namespace vitrine::target
