#include "observe/launch.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace vitrine::observe {
namespace {

Error cannot_run(const std::string& program, int error) {
  const std::string message = "cannot run " + program + ": " + std::strerror(error);
  if (error == ENOENT) return {ErrorCode::not_found, message, "check the path, or PATH"};
  if (error == EACCES || error == EPERM) return {ErrorCode::not_permitted, message, {}};
  return {ErrorCode::failed, message, {}};
}

}  // namespace

Result<Launched> Launched::start(const std::vector<std::string>& command) {
  if (command.empty())
    return fail(ErrorCode::usage, "--exec needs a command",
                "write it after --: --exec -- ./server");
  std::vector<char*> argv;
  for (const std::string& arg : command) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);

  // The write end closes by itself at a successful exec; else it carries the errno.
  int channel[2];
  if (pipe2(channel, O_CLOEXEC) != 0)
    return fail(ErrorCode::failed, std::string("pipe2: ") + std::strerror(errno));
  const pid_t pid = fork();
  if (pid == 0) {
    execvp(argv[0], argv.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t sent = write(channel[1], &error, sizeof error);
    _exit(127);
  }
  const int fork_error = errno;
  close(channel[1]);
  int error = 0;
  ssize_t got = -1;
  if (pid > 0) {
    do got = read(channel[0], &error, sizeof error);
    while (got < 0 && errno == EINTR);
  }
  close(channel[0]);
  if (pid < 0) return fail(ErrorCode::failed, std::string("fork: ") + std::strerror(fork_error));
  if (got == sizeof error) {
    waitpid(pid, nullptr, 0);
    return tl::unexpected(cannot_run(command[0], error));
  }
  return Launched(pid);
}

Launched::Launched(Launched&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), reaped_(other.reaped_) {}

Launched& Launched::operator=(Launched&& other) noexcept {
  if (this != &other) {
    finish();
    pid_ = std::exchange(other.pid_, -1);
    reaped_ = other.reaped_;
  }
  return *this;
}

Launched::~Launched() {
  finish();
}

bool Launched::ended() {
  if (!reaped_ && waitpid(pid_, nullptr, WNOHANG) == pid_) reaped_ = true;
  return reaped_;
}

void Launched::finish() noexcept {
  if (pid_ < 0 || ended()) return;
  kill(pid_, SIGTERM);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  reaped_ = true;
}

}  // namespace vitrine::observe
