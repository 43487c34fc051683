#include "observe/process/launch.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "base/file_descriptor.hpp"
#include "base/result.hpp"

namespace vitrine::observe {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds time_to_end{5000};  // what service managers allow is longer; users wait here
constexpr milliseconds time_to_die{1000};  // of what is killed
constexpr milliseconds nap{10};

Error cannot_run(const std::string& program, int error) {
  const std::string message = "cannot run " + program + ": " + std::strerror(error);
  const ErrorCode code = code_of_errno(error);
  if (code == ErrorCode::not_found) return {code, message, "check the path, or PATH"};
  if (code == ErrorCode::not_permitted)
    return {code, message, "give a program that may be executed (chmod +x)"};
  return {code, message, {}};
}

/// By its status of wait(2); empty: it did not fail, or the user ended it.
std::string failure_of(int status) {
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
    return "the command ended with exit code " + std::to_string(WEXITSTATUS(status));
  if (!WIFSIGNALED(status)) return {};
  const int signal = WTERMSIG(status);
  if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) return {};
  return "the command was ended by signal " + std::to_string(signal) + " (" + strsignal(signal) +
         ')';
}

}  // namespace

Result<Launched> Launched::start(const std::vector<std::string>& command, bool to_stderr) {
  return launch(command, to_stderr, false);
}

Result<Launched> Launched::hold(const std::vector<std::string>& command, bool to_stderr) {
  return launch(command, to_stderr, true);
}

Result<Launched> Launched::launch(const std::vector<std::string>& command, bool to_stderr,
                                  bool hold) {
  if (command.empty())
    return fail(ErrorCode::usage, "--exec requires a command",
                "write it after --: --exec -- ./server");
  std::vector<char*> argv;
  for (const std::string& arg : command) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);

  // Each way one message: the parent sends "go", once it is seized if it must be held; it sends the errno of
  // an exec that failed, or closes its end by executing.
  int go[2];
  int failure[2];
  const auto no_pipe = [](int error) {
    return fail(ErrorCode::failed, std::string("cannot create a pipe: ") + std::strerror(error),
                "raise the limit of open files (ulimit -n)");
  };
  if (pipe2(go, O_CLOEXEC) != 0) return no_pipe(errno);
  if (pipe2(failure, O_CLOEXEC) != 0) {
    const int error = errno;
    close(go[0]);
    close(go[1]);
    return no_pipe(error);
  }
  const pid_t pid = fork();
  if (pid == 0) {
    close(go[1]);
    char word = 0;
    if (read(go[0], &word, 1) != 1) _exit(127);
    for (const int ignored : {SIGPIPE, SIGXFSZ}) ::signal(ignored, SIG_DFL);  // it would, too
    if (to_stderr) dup2(STDERR_FILENO, STDOUT_FILENO);
    restore_file_limit();
    execvp(argv[0], argv.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t sent = write(failure[1], &error, sizeof error);
    _exit(127);
  }
  const int fork_error = errno;
  close(go[0]);
  close(failure[1]);
  if (pid < 0) {
    close(go[1]);
    close(failure[0]);
    return fail(ErrorCode::failed, std::string("fork: ") + std::strerror(fork_error));
  }
  Launched launched(pid);
  Result<void> held{};
  if (hold) {
    if (auto seized = target::HeldProgram::seize(pid))
      launched.held_.emplace(std::move(*seized));
    else
      held = tl::unexpected(seized.error());
  }
  if (held) [[maybe_unused]]
    const ssize_t sent = write(go[1], "", 1);
  close(go[1]);
  if (held && hold) held = launched.held_->wait_for_exec();
  // An exec that is held has closed its end of the pipe, too.
  int error = 0;
  ssize_t got = -1;
  do got = read(failure[0], &error, sizeof error);
  while (got < 0 && errno == EINTR);
  close(failure[0]);
  if (held && got != sizeof error) return launched;
  if (held || !hold || held.error().code != ErrorCode::not_found) waitpid(pid, nullptr, 0);
  launched.reaped_ = true;
  if (got == sizeof error) return tl::unexpected(cannot_run(command[0], error));
  return tl::unexpected(held.error());
}

Result<void> Launched::run_to_libraries(const std::atomic<bool>* stop) {
  if (!held_) return {};
  auto there = held_->run_to_libraries(stop);
  if (!there) {
    reaped_ = true;
    held_.reset();
  }
  return there;
}

Launched::Launched(Launched&& other) noexcept
    : owner_(other.owner_),
      pid_(std::exchange(other.pid_, -1)),
      reaped_(other.reaped_),
      status_(other.status_),
      held_(std::move(other.held_)) {
  other.held_.reset();
}

Launched& Launched::operator=(Launched&& other) noexcept {
  if (this != &other) {
    (void)end();
    owner_ = other.owner_;
    pid_ = std::exchange(other.pid_, -1);
    reaped_ = other.reaped_;
    status_ = other.status_;
    held_.reset();
    if (other.held_) held_.emplace(std::move(*other.held_));
    other.held_.reset();
  }
  return *this;
}

Launched::~Launched() {
  (void)end();
}

bool Launched::executed() {
  if (!held_) return false;
  const auto executed = held_->executed();
  if (executed) return *executed;
  reaped_ = true;
  held_.reset();
  return false;
}

bool Launched::ended() {
  if (held_) {  // what stops it is not its end
    (void)executed();
    return reaped_;
  }
  if (reaped_) return true;
  int status = 0;
  const pid_t waited = waitpid(pid_, &status, WNOHANG);
  if (waited == pid_) status_ = status;
  // ECHILD: it has ended and the kernel has reaped it, because SIGCHLD is ignored.
  reaped_ = waited == pid_ || (waited < 0 && errno == ECHILD);
  return reaped_;
}

bool Launched::ends_within(milliseconds time) noexcept {
  const auto end = std::chrono::steady_clock::now() + time;
  while (!ended() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(nap);
  return ended();
}

std::string Launched::end() noexcept {
  // A fork has no such child.
  if (!owner_.is_here()) return {};
  if (held_ && held_->is_held() && pid_ > 0) kill(pid_, SIGKILL);  // it has done nothing yet
  // One that cannot be let go is asked to end all the same: ended() passes on what stops it.
  if (held_ && held_->release()) held_.reset();
  if (pid_ < 0) return {};
  if (ended()) return status_ ? failure_of(*status_) : std::string();
  kill(pid_, SIGTERM);
  if (ends_within(time_to_end)) return {};
  const bool killed = kill(pid_, SIGKILL) == 0;
  const std::string subject = "the program that was started (process " + std::to_string(pid_) + ")";
  if (ends_within(time_to_die)) return subject + " ignored SIGTERM and was killed";
  reaped_ = true;  // no wait(2) follows
  return subject + (killed ? " does not end, not even by SIGKILL"
                           : " cannot be ended by vitrine (no permission) and continues");
}

}  // namespace vitrine::observe
