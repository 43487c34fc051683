#include "worker/channel.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace vitrine::worker {
namespace {

struct Head {
  std::uint32_t kind = 0;
  std::uint32_t bytes = 0;
};

tl::unexpected<Error> gone() {
  return fail(ErrorCode::interrupted, "the other process has closed the connection");
}

/// Room for one descriptor beside a message.
union Ancillary {
  char bytes[CMSG_SPACE(sizeof(int))];
  cmsghdr aligned;
};

}  // namespace

Result<void> Channel::wait(short event, Clock::time_point until) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd poll{socket_.get(), event, 0};
    const int ready =
        ::poll(&poll, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000)));
    if (ready > 0) return {};
    if (ready == 0 && left <= 0) return fail(ErrorCode::limit, "no response in time");
    if (ready < 0 && errno != EINTR) return gone();
  }
}

Result<void> Channel::send(Kind kind, std::span<const std::byte> bytes, Clock::time_point until,
                           int descriptor) {
  Head head{static_cast<std::uint32_t>(kind), static_cast<std::uint32_t>(bytes.size())};
  Ancillary ancillary{};
  std::size_t sent = 0;
  const std::size_t whole = sizeof head + bytes.size();
  while (sent < whole) {
    if (auto ready = wait(POLLOUT, until); !ready) return ready;
    iovec parts[2];
    msghdr message{};
    message.msg_iov = parts;
    if (sent < sizeof head)
      parts[message.msg_iovlen++] = {reinterpret_cast<char*>(&head) + sent, sizeof head - sent};
    const std::size_t skip = sent < sizeof head ? 0 : sent - sizeof head;
    // sendmsg only reads what an iovec points to.
    parts[message.msg_iovlen++] = {const_cast<std::byte*>(bytes.data()) + skip,
                                   bytes.size() - skip};
    if (sent == 0 && descriptor >= 0) {
      message.msg_control = ancillary.bytes;
      message.msg_controllen = sizeof ancillary.bytes;
      cmsghdr* control = CMSG_FIRSTHDR(&message);
      control->cmsg_level = SOL_SOCKET;
      control->cmsg_type = SCM_RIGHTS;
      control->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(control), &descriptor, sizeof descriptor);
    }
    const ssize_t n = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0)
      sent += static_cast<std::size_t>(n);
    else if (errno != EINTR && errno != EAGAIN)
      return gone();
  }
  return {};
}

Result<Message> Channel::receive(std::size_t most, Clock::time_point until) {
  Head head;
  Message message;
  std::size_t got = 0;
  std::size_t whole = sizeof head;
  while (got < whole) {
    if (auto ready = wait(POLLIN, until); !ready)
      return tl::unexpected<Error>(std::move(ready.error()));
    const bool in_head = got < sizeof head;
    iovec part{in_head ? reinterpret_cast<std::byte*>(&head) + got
                       : message.bytes.data() + (got - sizeof head),
               in_head ? sizeof head - got : whole - got};
    Ancillary ancillary{};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = ancillary.bytes;
    header.msg_controllen = CMSG_LEN(sizeof(int));  // no room for a second one
    const ssize_t n = ::recvmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return gone();
    const cmsghdr* control = CMSG_FIRSTHDR(&header);
    if (control != nullptr && control->cmsg_level == SOL_SOCKET &&
        control->cmsg_type == SCM_RIGHTS && control->cmsg_len == CMSG_LEN(sizeof(int))) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(control), sizeof descriptor);
      message.descriptor = FileDescriptor(descriptor);
    }
    got += static_cast<std::size_t>(n);
    if (in_head && got == sizeof head) {
      if (head.bytes > most) return fail(ErrorCode::malformed, "a message exceeds the size limit");
      message.kind = static_cast<Kind>(head.kind);
      message.bytes.resize(head.bytes);
      whole += head.bytes;
    }
  }
  return message;
}

}  // namespace vitrine::worker
