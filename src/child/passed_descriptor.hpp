// PassedDescriptor: one descriptor beside a message of a Unix socket (SCM_RIGHTS).
#pragma once

#include <sys/socket.h>

#include <cstring>

namespace vitrine::child {

/// Room for the descriptor: it must live as long as the message is sent or received. Safe in signal
/// handlers.
class PassedDescriptor {
 public:
  /// `message` carries `descriptor`, of which the receiver gets its own.
  void attach(msghdr& message, int descriptor) {
    message.msg_control = bytes_;
    message.msg_controllen = sizeof bytes_;
    cmsghdr* control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(control), &descriptor, sizeof descriptor);
  }

  /// `message` has room for one descriptor and no second one, which would stay open unseen.
  void expect(msghdr& message) {
    message.msg_control = bytes_;
    message.msg_controllen = CMSG_LEN(sizeof(int));
  }

  /// What came with a message that has been received. -1: none.
  static int received(const msghdr& message) {
    const cmsghdr* control = CMSG_FIRSTHDR(&message);
    if (control == nullptr || control->cmsg_level != SOL_SOCKET ||
        control->cmsg_type != SCM_RIGHTS || control->cmsg_len != CMSG_LEN(sizeof(int)))
      return -1;
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(control), sizeof descriptor);
    return descriptor;
  }

 private:
  alignas(cmsghdr) char bytes_[CMSG_SPACE(sizeof(int))] = {};
};

}  // namespace vitrine::child
