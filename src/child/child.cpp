#include "child/child.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace vitrine::child {
namespace {

/// No flag, and no signal at its end. (qemu-user can make no such child.)
pid_t quiet_child() {
  const auto clone = [](unsigned long signal) {
    return static_cast<pid_t>(::syscall(SYS_clone, signal, nullptr, nullptr, nullptr, nullptr));
  };
  const pid_t pid = clone(0);
  return pid < 0 && errno == EINVAL ? clone(SIGCHLD) : pid;
}

}  // namespace

Result<Child> Child::start(Kind kind, const std::function<void()>& life) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = kind == Kind::forked ? ::fork() : quiet_child();
  if (pid == 0) {
    life();
    ::_exit(0);
  }
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return fail(ErrorCode::failed, fmt::format("cannot fork: {}", std::strerror(error)));
  return Child(pid, FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))));
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), handle_(std::move(other.handle_)) {}

Child& Child::operator=(Child&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(handle_, other.handle_);
  return *this;
}

void Child::kill() const noexcept {
  if (pid_ < 0) return;
  // A program that reaps every child of its own may have had ours too: the number can be
  // another's by now, the handle cannot.
  if (handle_)
    ::syscall(SYS_pidfd_send_signal, handle_.get(), SIGKILL, nullptr, 0);
  else
    ::kill(pid_, SIGKILL);
}

int Child::reap() noexcept {
  int status = 0;
  while (::waitpid(pid_, &status, __WALL) < 0)
    if (errno != EINTR) {
      status = 0;
      break;
    }
  forget();
  return status;
}

void Child::end() noexcept {
  if (pid_ < 0) return;
  kill();
  reap();
}

std::optional<int> Child::wait(std::chrono::milliseconds time) {
  pollfd ending{handle_.get(), POLLIN, 0};
  if (::poll(&ending, 1, static_cast<int>(time.count())) != 1) return std::nullopt;
  return reap();
}

void Child::forget() noexcept {
  pid_ = -1;
  handle_ = FileDescriptor();
}

}  // namespace vitrine::child
