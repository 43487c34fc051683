#include "support/child.hpp"

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <utility>

namespace vitrine::test {
namespace {

using Clock = std::chrono::steady_clock;

int left(Clock::time_point deadline) {
  auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return ms < 0 ? 0 : static_cast<int>(ms);
}

void close_fd(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

std::string drain(int fd, Clock::time_point deadline) {
  std::string text;
  char chunk[4096];
  while (fd >= 0) {
    pollfd wait{fd, POLLIN, 0};
    if (poll(&wait, 1, left(deadline)) <= 0) break;
    const ssize_t n = ::read(fd, chunk, sizeof chunk);
    if (n <= 0) break;
    text.append(chunk, static_cast<std::size_t>(n));
  }
  return text;
}

/// fork(2), with a number of our choice.
pid_t fork_as(pid_t pid) {
  if (pid == 0) return fork();
  clone_args arguments{};
  arguments.exit_signal = SIGCHLD;
  arguments.set_tid = reinterpret_cast<std::uintptr_t>(&pid);
  arguments.set_tid_size = 1;
  return static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof arguments));
}

}  // namespace

Child Child::spawn(std::vector<std::string> argv, ChildOptions options) {
  int in[2], out[2], err[2];
  if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
    throw std::runtime_error("pipe2 failed");
  std::vector<char*> args;
  for (auto& arg : argv) args.push_back(arg.data());
  args.push_back(nullptr);

  const pid_t parent = getpid();
  const pid_t pid = fork_as(options.pid);
  if (pid < 0) throw std::runtime_error(std::string("fork failed: ") + strerror(errno));
  if (pid == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    if (options.capture_stderr) dup2(err[1], 2);
    for (auto& entry : options.env) putenv(entry.data());
    // By descriptor: another user may not enter the folders that it is in (a home, /root).
    const int program = options.uid != 0 ? open(args[0], O_PATH | O_CLOEXEC) : -1;
    if (options.uid != 0 && (setgroups(0, nullptr) || setgid(options.uid) || setuid(options.uid)))
      _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // after setuid, which clears it
    if (getppid() != parent) _exit(125);
    if (program >= 0) execveat(program, "", args.data(), environ, AT_EMPTY_PATH);
    execvp(args[0], args.data());
    dprintf(2, "cannot run %s: %s\n", args[0], strerror(errno));
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  close(err[1]);
  Child child;
  child.pid_ = pid;
  child.in_ = in[1];
  child.out_ = out[0];
  child.err_ = err[0];
  return child;
}

Child::Child(Child&& other) noexcept {
  *this = std::move(other);
}

Child& Child::operator=(Child&& other) noexcept {
  if (this != &other) {
    end();
    pid_ = std::exchange(other.pid_, -1);
    in_ = std::exchange(other.in_, -1);
    out_ = std::exchange(other.out_, -1);
    err_ = std::exchange(other.err_, -1);
    buffer_ = std::move(other.buffer_);
  }
  return *this;
}

Child::~Child() {
  end();
}

void Child::end() noexcept {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_ = -1;
  close_fd(in_);
  close_fd(out_);
  close_fd(err_);
}

std::optional<std::string> Child::read_line(std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  for (;;) {
    if (auto end_of_line = buffer_.find('\n'); end_of_line != std::string::npos) {
      std::string line = buffer_.substr(0, end_of_line);
      buffer_.erase(0, end_of_line + 1);
      return line;
    }
    pollfd wait{out_, POLLIN, 0};
    if (poll(&wait, 1, left(deadline)) <= 0) return std::nullopt;
    char chunk[4096];
    const ssize_t n = ::read(out_, chunk, sizeof chunk);
    if (n <= 0) return std::nullopt;
    buffer_.append(chunk, static_cast<std::size_t>(n));
  }
}

std::vector<std::string> Child::read_until(const std::string& last) {
  std::vector<std::string> lines;
  for (;;) {
    auto line = read_line();
    if (!line) {
      ADD_FAILURE() << "the child ended or stalled before printing \"" << last << "\"";
      return lines;
    }
    if (*line == last) return lines;
    lines.push_back(std::move(*line));
  }
}

void Child::write(const std::string& text) {
  if (::write(in_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    ADD_FAILURE() << "cannot write to the child: " << strerror(errno);
}

void Child::close_stdin() {
  close_fd(in_);
}

void Child::signal(int number) const {
  ::kill(pid_, number);
}

std::optional<int> Child::wait(std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (pid_ > 0) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    if (Clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return std::nullopt;
}

std::string Child::rest_of_output(std::chrono::milliseconds timeout) {
  return std::exchange(buffer_, {}) + drain(out_, Clock::now() + timeout);
}

std::string Child::rest_of_errors(std::chrono::milliseconds timeout) {
  return drain(err_, Clock::now() + timeout);
}

Outcome run(std::vector<std::string> argv, ChildOptions options,
            std::chrono::milliseconds timeout) {
  Child child = Child::spawn(std::move(argv), std::move(options));
  child.close_stdin();
  Outcome outcome;
  std::thread errors([&] { outcome.err = child.rest_of_errors(timeout); });
  outcome.out = child.rest_of_output(timeout);
  errors.join();
  outcome.status = child.wait(timeout).value_or(-1);
  return outcome;
}

}  // namespace vitrine::test
