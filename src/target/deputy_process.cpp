#include "target/deputy_process.hpp"

#include <linux/capability.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "child/beginning.hpp"
#include "child/passed_descriptor.hpp"
#include "target/spin.hpp"

namespace vitrine::target {
namespace {

constexpr std::uint64_t page_bytes = 4096;  // no page is smaller

/// A message of one byte, beside which one descriptor may come or go.
struct Envelope {
  Envelope() {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
  }
  char byte = 0;
  iovec part{&byte, 1};
  child::PassedDescriptor passed;
  msghdr message{};
};

class Service {
 public:
  Service(Desk& desk, int socket) : desk_(desk), socket_(socket) {}

  [[noreturn]] void run() {
    Spin spin(std::chrono::microseconds(50));
    for (std::uint32_t last = 0;;) {
      const auto asked = [&] { return desk_.asked.load() != last; };
      if (!spin.until(asked)) {
        desk_.deputy_sleeps = 1;
        while (!asked()) take_message();
        desk_.deputy_sleeps = 0;
      }
      last = desk_.asked.load();
      desk_.taken = last;
      answer();
      desk_.answered = last;
      if (desk_.asker_sleeps.load() != 0) ring(socket_);
    }
  }

 private:
  /// Waits for one. A descriptor that came with it is kept for the answer.
  void take_message() {
    Envelope envelope;
    envelope.passed.expect(envelope.message);
    const ssize_t n = ::recvmsg(socket_, &envelope.message, MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == EINTR) return;
    if (n <= 0) ::_exit(0);  // nobody is there any more
    const int file = envelope.passed.received(envelope.message);
    if (file < 0) return;
    if (file_ >= 0) ::close(file_);
    file_ = file;
  }

  void answer() {
    desk_.done = 0;
    desk_.error = 0;
    const std::uint32_t count = std::min<std::uint32_t>(desk_.count, Desk::most_parts);
    if (desk_.tid == Desk::of_file) {
      while (file_ < 0) take_message();
      one_by_one(count);
      ::close(file_);
      file_ = -1;
    } else if (desk_.one_by_one) {
      one_by_one(count);
    } else {
      std::size_t size = 0;
      for (std::uint32_t i = 0; i < count; ++i) size += desk_.parts[i].iov_len;
      iovec all{desk_.bytes, size};
      const ssize_t n = ::process_vm_readv(desk_.tid, &all, 1, desk_.parts, count, 0);
      if (n < 0)
        desk_.error = errno;
      else
        desk_.done = static_cast<std::uint64_t>(n);
    }
  }

  void one_by_one(std::uint32_t count) {
    std::uint64_t done = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      const iovec& part = desk_.parts[i];
      for (std::size_t at = 0; at < part.iov_len;) {
        const auto address = reinterpret_cast<std::uintptr_t>(part.iov_base) + at;
        const std::size_t size =
            std::min<std::size_t>(part.iov_len - at, page_bytes - address % page_bytes);
        const ssize_t n = read(address, {desk_.bytes + done, size});
        if (n < 0 && done == 0) desk_.error = errno;
        if (n > 0) done += static_cast<std::uint64_t>(n);
        desk_.done = done;
        if (n != static_cast<ssize_t>(size)) return;
        at += size;
      }
    }
  }

  ssize_t read(std::uintptr_t address, iovec into) {
    if (desk_.tid == Desk::of_file)
      return ::pread(file_, into.iov_base, into.iov_len, static_cast<off_t>(address));
    // An address of the other process: only the kernel follows it.
    const iovec from{reinterpret_cast<void*>(address), into.iov_len};
    return ::process_vm_readv(desk_.tid, &into, 1, &from, 1, 0);
  }

  Desk& desk_;
  int socket_;
  int file_ = -1;
};

}  // namespace

void ring(int socket, int descriptor) {
  Envelope envelope;
  if (descriptor >= 0) envelope.passed.attach(envelope.message, descriptor);
  while (::sendmsg(socket, &envelope.message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EINTR) {
  }
}

void serve(Desk& desk, int socket, pid_t parent, const confine::Filter* filter) {
  socket = child::leave_everything(socket);
  child::settle("vitrine-deputy", parent, CAP_SYS_PTRACE);
  if (filter != nullptr) static_cast<void>(filter->install());  // if the kernel has filters
  Service(desk, socket).run();
}

}  // namespace vitrine::target
