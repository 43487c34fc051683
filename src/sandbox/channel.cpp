#include "sandbox/channel.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "sandbox/child.hpp"

namespace vitrine::sandbox {
namespace {

struct Head {
  std::uint32_t kind = 0;
  std::uint32_t bytes = 0;
};

tl::unexpected<Error> gone() {
  return fail(ErrorCode::interrupted, "the other process has closed the connection");
}

}  // namespace

Result<void> Channel::wait(short event, Clock::time_point until, const Extend& extend) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd poll{socket_.get(), event, 0};
    const int ready =
        ::poll(&poll, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000)));
    if (ready > 0) return {};
    if (ready == 0 && left <= 0) {
      if (extend) until = extend();
      if (until <= Clock::now()) return fail(ErrorCode::limit, "no response in time");
    }
    if (ready < 0 && errno != EINTR) return gone();
  }
}

Result<void> Channel::send(MessageKind kind, std::span<const std::byte> bytes,
                           Clock::time_point until, int descriptor) {
  Head head{static_cast<std::uint32_t>(kind), static_cast<std::uint32_t>(bytes.size())};
  sandbox::PassedDescriptor passed;
  std::size_t sent = 0;
  const std::size_t whole = sizeof head + bytes.size();
  while (sent < whole) {
    iovec parts[2];
    msghdr message{};
    message.msg_iov = parts;
    if (sent < sizeof head)
      parts[message.msg_iovlen++] = {reinterpret_cast<char*>(&head) + sent, sizeof head - sent};
    const std::size_t skip = sent < sizeof head ? 0 : sent - sizeof head;
    // sendmsg only reads what an iovec points to.
    parts[message.msg_iovlen++] = {const_cast<std::byte*>(bytes.data()) + skip,
                                   bytes.size() - skip};
    if (sent == 0 && descriptor >= 0) passed.attach(message, descriptor);
    const ssize_t n = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0)
      sent += static_cast<std::size_t>(n);
    else if (errno == EAGAIN)
      TRY(wait(POLLOUT, until));
    else if (errno != EINTR)
      return gone();
  }
  return {};
}

Result<Message> Channel::receive(std::size_t most, Clock::time_point until, const Extend& extend) {
  Head head;
  Message message;
  std::size_t got = 0;
  std::size_t whole = sizeof head;
  bool must_wait = true;  // what follows the first bytes is mostly there
  while (got < whole) {
    if (must_wait) TRY(wait(POLLIN, until, extend));
    const bool in_head = got < sizeof head;
    iovec part{in_head ? reinterpret_cast<std::byte*>(&head) + got
                       : message.bytes.data() + (got - sizeof head),
               in_head ? sizeof head - got : whole - got};
    sandbox::PassedDescriptor passed;
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    passed.expect(header);
    const ssize_t n = ::recvmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    must_wait = n < 0 && errno == EAGAIN;
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return gone();
    if (const int descriptor = passed.received(header); descriptor >= 0)
      message.descriptor = FileDescriptor(descriptor);
    got += static_cast<std::size_t>(n);
    if (in_head && got == sizeof head) {
      if (head.bytes > most) return fail(ErrorCode::malformed, "a message exceeds the size limit");
      message.kind = static_cast<MessageKind>(head.kind);
      message.bytes.resize(head.bytes);
      whole += head.bytes;
    }
  }
  return message;
}

}  // namespace vitrine::sandbox
