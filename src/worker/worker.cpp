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
    return fail(ErrorCode::failed, fmt::format("cannot create a socket: {}", std::strerror(errno)));
  FileDescriptor ours(pair[0]), its(pair[1]);
  const pid_t parent = ::getpid();
  static_cast<void>(worker_filter());
  auto process = TRY(child::Child::start(child::Kind::forked,
                                         [&] { serve(its.get(), parent, name, limits, make); }));
  return Worker(Channel(std::move(ours)), std::move(process), limits);
}

Worker::Worker(Channel channel, child::Child process, const Limits& limits)
    : channel_(std::move(channel)),
      process_(std::move(process)),
      limits_(limits),
      at_first_(used_memory_of(process_.pid()).resident) {}

/// What became of the worker, said of its parser.
tl::unexpected<Error> Worker::reason_of_end(Error seen) {
  const auto took_too_long = [&] {
    return fail(ErrorCode::limit, fmt::format("its parser was stopped: it took longer than {} s",
                                              std::chrono::duration<double>(limits_.time).count()));
  };
  if (seen.code == ErrorCode::limit) {
    process_.end();
    return took_too_long();
  }
  if (seen.code == ErrorCode::malformed) return made_no_sense();
  // It has let go of the socket, so that it is about to end; if it only pretends to, it is made to.
  const auto ended = process_.wait(std::chrono::seconds(1));
  if (!ended) {
    process_.end();
    return fail(ErrorCode::failed, "its parser closed the connection");
  }
  const int status = *ended;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) return took_too_long();
  if (WIFEXITED(status) && WEXITSTATUS(status) == out_of_memory)
    return fail(ErrorCode::limit, fmt::format("its parser was stopped: it needed more than {} MiB",
                                              limits_.memory >> 20));
  if (WIFSIGNALED(status))
    return fail(ErrorCode::failed,
                fmt::format("its parser crashed ({})", ::strsignal(WTERMSIG(status))));
  return fail(ErrorCode::failed, "its parser ended");
}

tl::unexpected<Error> Worker::made_no_sense() {
  process_.end();
  return fail(ErrorCode::failed, "its parser returned an invalid response");
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
  return process_ && ::poll(&ended, 1, 0) == 0;
}

std::uint64_t Worker::memory() const {
  const std::uint64_t now = used_memory_of(process_.pid()).resident;
  return now > at_first_ ? now - at_first_ : 0;
}

}  // namespace vitrine::worker
