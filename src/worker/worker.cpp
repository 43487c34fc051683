#include "worker/worker.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/limits.hpp"
#include "worker/confinement.hpp"
#include "worker/used_memory.hpp"
#include "worker/worker_process.hpp"

namespace vitrine::worker {

Result<Worker> Worker::start(const char* name, const Limits& limits,
                             const std::function<std::unique_ptr<Service>()>& make) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return fail(ErrorCode::failed, fmt::format("cannot make a socket: {}", std::strerror(errno)));
  FileDescriptor ours(pair[0]), its(pair[1]);
  const pid_t parent = ::getpid();
  static_cast<void>(worker_filter());
  // The child must not run a handler of the program that we are part of.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::fork();
  if (pid == 0) serve(its.get(), parent, name, limits, make);
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return fail(ErrorCode::failed, fmt::format("cannot fork: {}", std::strerror(error)));
  FileDescriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  return Worker(Channel(std::move(ours)), pid, std::move(handle), limits);
}

Worker::Worker(Channel channel, pid_t pid, FileDescriptor handle, const Limits& limits)
    : channel_(std::move(channel)),
      pid_(pid),
      handle_(std::move(handle)),
      limits_(limits),
      at_first_(used_memory_of(pid).resident) {}

Worker::Worker(Worker&& other) noexcept
    : channel_(std::move(other.channel_)),
      pid_(std::exchange(other.pid_, -1)),
      handle_(std::move(other.handle_)),
      limits_(other.limits_),
      at_first_(other.at_first_) {}

Worker& Worker::operator=(Worker&& other) noexcept {
  std::swap(channel_, other.channel_);
  std::swap(pid_, other.pid_);
  std::swap(handle_, other.handle_);
  std::swap(limits_, other.limits_);
  std::swap(at_first_, other.at_first_);
  return *this;
}

Worker::~Worker() {
  end();
}

void Worker::end() noexcept {
  if (pid_ < 0) return;
  // A program that reaps every child of its own may have had ours too: the number can be
  // another's by now, the handle cannot.
  if (handle_)
    ::syscall(SYS_pidfd_send_signal, handle_.get(), SIGKILL, nullptr, 0);
  else
    ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

/// What became of the worker, said of its parser.
tl::unexpected<Error> Worker::reason_of_end(Error seen) {
  const auto took_too_long = [&] {
    return fail(ErrorCode::limit, fmt::format("its parser was stopped: it took longer than {} s",
                                              std::chrono::duration<double>(limits_.time).count()));
  };
  if (seen.code == ErrorCode::limit) {
    end();
    return took_too_long();
  }
  if (seen.code == ErrorCode::malformed) return made_no_sense();
  // It has let go of the socket, so that it is about to end; if it only pretends to, it is made to.
  pollfd ending{handle_.get(), POLLIN, 0};
  if (::poll(&ending, 1, 1000) != 1) {
    end();
    return fail(ErrorCode::failed, "its parser hung up");
  }
  int status = 0;
  pid_t ended = 0;
  while ((ended = ::waitpid(pid_, &status, 0)) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (ended > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) return took_too_long();
  if (ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == out_of_memory)
    return fail(ErrorCode::limit, fmt::format("its parser was stopped: it needed more than {} MiB",
                                              limits_.memory >> 20));
  if (ended > 0 && WIFSIGNALED(status))
    return fail(ErrorCode::failed,
                fmt::format("its parser crashed ({})", ::strsignal(WTERMSIG(status))));
  return fail(ErrorCode::failed, "its parser ended");
}

tl::unexpected<Error> Worker::made_no_sense() {
  end();
  return fail(ErrorCode::failed, "its parser answered what makes no sense");
}

Result<std::vector<std::byte>> Worker::ask(std::span<const std::byte> question, int file,
                                           std::size_t most, const Open& open) {
  const auto until = Channel::Clock::now() + limits_.time;
  if (auto sent = channel_.send(Kind::question, question, until, file); !sent)
    return reason_of_end(std::move(sent.error()));
  for (std::size_t opened = 0;;) {
    auto message = channel_.receive(most, until);
    if (!message) return reason_of_end(std::move(message.error()));
    if (message->kind == Kind::answer) return std::move(message->bytes);
    std::uint32_t root = 0;
    if (message->kind != Kind::open || message->bytes.size() < sizeof root ||
        message->bytes.size() > sizeof root + limits::name_bytes)
      return made_no_sense();
    std::memcpy(&root, message->bytes.data(), sizeof root);
    FileDescriptor found;
    if (opened++ < files_opened && open)
      found = open(root, {reinterpret_cast<const char*>(message->bytes.data()) + sizeof root,
                          message->bytes.size() - sizeof root});
    if (auto sent = channel_.send(Kind::opened, {}, until, found.get()); !sent)
      return reason_of_end(std::move(sent.error()));
  }
}

bool Worker::is_there() const {
  pollfd ended{channel_.descriptor(), POLLIN, 0};  // unasked it says nothing, but hangs up
  return pid_ > 0 && ::poll(&ended, 1, 0) == 0;
}

std::uint64_t Worker::memory() const {
  const std::uint64_t now = used_memory_of(pid_).resident;
  return now > at_first_ ? now - at_first_ : 0;
}

}  // namespace vitrine::worker
