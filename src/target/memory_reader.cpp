#include "target/memory_reader.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/per_thread.hpp"
#include "sandbox/child.hpp"
#include "sandbox/seats.hpp"
#include "target/maps.hpp"
#include "target/proc_file.hpp"

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
  sandbox::PassedDescriptor passed;
  msghdr message{};
};

/// A file of /proc/PID, read by as many requests as it takes. Async-signal-safe.
class ProcFile {
 public:
  ProcFile() = default;
  explicit ProcFile(int file) : file_(file) {}
  ProcFile(const ProcFile&) = delete;
  ProcFile& operator=(const ProcFile&) = delete;
  ~ProcFile() { close(); }

  int release() { return std::exchange(file_, -1); }

  void close() {
    if (file_ >= 0) ::close(file_);
    file_ = -1;
  }

  /// `directory`: of which `buffer.path` is opened; -1: the file that is open is read on.
  void read(SharedBuffer& buffer, int directory) {
    buffer.done = 0;
    buffer.error = 0;
    buffer.more = false;
    if (directory >= 0) {
      close();
      file_ = ::openat(directory, buffer.path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    }
    if (file_ < 0) {
      buffer.error = directory >= 0 ? errno : EAGAIN;  // another reader had opened it
      return;
    }
    if (buffer.proc == SharedBuffer::Proc::text)
      read_text(buffer);
    else
      query_mappings(buffer);
    if (!buffer.more) close();
  }

 private:
  void read_text(SharedBuffer& buffer) const {
    std::size_t done = 0;
    while (done < SharedBuffer::max_bytes) {
      const ssize_t n = ::read(file_, buffer.bytes + done, SharedBuffer::max_bytes - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) buffer.error = errno;
      if (n <= 0) return;
      done += static_cast<std::size_t>(n);
      buffer.done = done;
    }
    buffer.more = true;
  }

  void query_mappings(SharedBuffer& buffer) const {
    const bool readable = buffer.proc == SharedBuffer::Proc::readable_mappings;
    Address address = buffer.from;
    std::size_t done = 0;
    while (SharedBuffer::max_bytes - done >= sizeof(ProcmapQuery) + mapping_name_bytes) {
      ProcmapQuery found;
      char* const name = reinterpret_cast<char*>(buffer.bytes + done + sizeof found);
      const int error = query_mapping(
          file_, address, readable ? QueryFilter::readable : QueryFilter::executable, found, name);
      if (error == ENOENT || (error == 0 && found.end <= address)) return;
      if (error != 0) {
        buffer.error = error;
        return;
      }
      address = found.end;
      if (found.name_size > 0) --found.name_size;  // its NUL
      std::memcpy(buffer.bytes + done, &found, sizeof found);
      done += sizeof found + found.name_size;
      buffer.done = done;
    }
    buffer.more = true;
  }

  int file_ = -1;
};

class Service {
 public:
  Service(SharedBuffer& buffer, int socket) : buffer_(buffer), socket_(socket) {}

  [[noreturn]] void run() {
    Spin spin(std::chrono::microseconds(50));
    for (std::uint32_t last = 0;;) {
      const auto asked = [&] { return buffer_.requested.load() != last; };
      if (!spin.until(asked)) {
        buffer_.reader_sleeps = 1;
        while (!asked()) take_message();
        buffer_.reader_sleeps = 0;
      }
      last = buffer_.requested.load();
      buffer_.taken = last;
      respond();
      buffer_.completed = last;
      if (buffer_.asker_sleeps.load() != 0) ring(socket_);
    }
  }

 private:
  /// Waits for one. A descriptor that came with it is kept for the response.
  void take_message() {
    Envelope envelope;
    envelope.passed.expect(envelope.message);
    const ssize_t n = ::recvmsg(socket_, &envelope.message, MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == EINTR) return;
    if (n <= 0) ::_exit(0);  // the requester has gone
    const int file = envelope.passed.received(envelope.message);
    if (file < 0) return;
    if (file_ >= 0) ::close(file_);
    file_ = file;
  }

  void respond() {
    buffer_.done = 0;
    buffer_.error = 0;
    const std::uint32_t count = std::min<std::uint32_t>(buffer_.count, SharedBuffer::max_parts);
    if (buffer_.tid == SharedBuffer::of_proc) {
      read_proc();
    } else if (buffer_.tid == SharedBuffer::of_file) {
      while (file_ < 0) take_message();
      one_by_one(count);
      ::close(file_);
      file_ = -1;
    } else if (buffer_.one_by_one) {
      one_by_one(count);
    } else {
      std::size_t size = 0;
      for (std::uint32_t i = 0; i < count; ++i) size += buffer_.parts[i].iov_len;
      iovec all{buffer_.bytes, size};
      const ssize_t n = ::process_vm_readv(buffer_.tid, &all, 1, buffer_.parts, count, 0);
      if (n < 0)
        buffer_.error = errno;
      else
        buffer_.done = static_cast<std::uint64_t>(n);
    }
  }

  void read_proc() {
    int directory = -1;
    if (!buffer_.goes_on) {
      while (file_ < 0) take_message();
      directory = std::exchange(file_, -1);
    }
    proc_.read(buffer_, directory);
    if (directory >= 0) ::close(directory);
  }

  void one_by_one(std::uint32_t count) {
    std::uint64_t done = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      const iovec& part = buffer_.parts[i];
      for (std::size_t at = 0; at < part.iov_len;) {
        const auto address = reinterpret_cast<std::uintptr_t>(part.iov_base) + at;
        const std::size_t size =
            std::min<std::size_t>(part.iov_len - at, page_bytes - address % page_bytes);
        const ssize_t n = read(address, {buffer_.bytes + done, size});
        if (n < 0 && done == 0) buffer_.error = errno;
        if (n > 0) done += static_cast<std::uint64_t>(n);
        buffer_.done = done;
        if (n != static_cast<ssize_t>(size)) return;
        at += size;
      }
    }
  }

  ssize_t read(std::uintptr_t address, iovec into) {
    if (buffer_.tid == SharedBuffer::of_file)
      return ::pread(file_, into.iov_base, into.iov_len, static_cast<off_t>(address));
    // An address of the other process: only the kernel follows it.
    const iovec from{reinterpret_cast<void*>(address), into.iov_len};
    return ::process_vm_readv(buffer_.tid, &into, 1, &from, 1, 0);
  }

  SharedBuffer& buffer_;
  int socket_;
  int file_ = -1;
  ProcFile proc_;
};

}  // namespace

void ring(int socket, int descriptor) {
  Envelope envelope;
  if (descriptor >= 0) envelope.passed.attach(envelope.message, descriptor);
  while (::sendmsg(socket, &envelope.message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EINTR) {
  }
}

void serve(SharedBuffer& buffer, int socket, pid_t parent, const sandbox::Filter* filter) {
  socket = sandbox::reset_inherited(socket);
  sandbox::drop_privileges("vitrine-reader", parent, {CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH});
  if (filter != nullptr) static_cast<void>(filter->install());  // if the kernel has filters
  Service(buffer, socket).run();
}

namespace {

using namespace std::chrono_literals;

constexpr int max_attempts = 3;       // of memory readers that end by what is done to them
constexpr std::size_t max_stuck = 8;  // that cannot even be killed
constexpr auto time_to_die = 1s;
constexpr auto time_to_run = 10s;  // on a machine that has much else to do
constexpr auto idle_for_ever = std::chrono::hours(24 * 365);

/// Made before the first clone: nothing may be allocated after it. Never destroyed: threads may read while the process
/// ends.
const sandbox::Filter* reader_filter() {
  static const auto& filter =
      *new auto(sandbox::SystemCalls()
                    .allow({"process_vm_readv", "pread64", "openat", "read", "ioctl", "recvmsg",
                            "sendmsg", "close", "clock_gettime", "sched_getaffinity",
                            "restart_syscall", "rt_sigreturn", "exit_group"})
                    // A tracer that has put a probe into our libraries makes these in our name.
                    .allow({"uretprobe", "uprobe"})
                    .compile());
  return filter ? &*filter : nullptr;
}

}  // namespace

MemoryReader& MemoryReader::of_this_thread() {
  return PerThread<MemoryReader>::get();
}

MemoryReader::~MemoryReader() {
  forget_after_fork();
  dismiss();
  for (sandbox::Child& one : stuck_)
    if (!one.wait(0ms)) one.forget();  // it ends when it can, and is init's then
}

void MemoryReader::Unmap::operator()(SharedBuffer* buffer) const {
  ::munmap(buffer, sizeof *buffer);
}

/// A process that was forked from the one that has the memory reader shares none of it: the buffer is not
/// mapped there, and what is at its place belongs to other code.
void MemoryReader::forget_after_fork() {
  if (owner_.is_here()) return;
  static_cast<void>(buffer_.release());
  seat_.reset();
  stuck_.clear();
  socket_ = FileDescriptor();
  if (own_proc_ >= 0) ::close(std::exchange(own_proc_, -1));
  owner_.renew();
}

bool MemoryReader::begin() {
  std::erase_if(stuck_, [](sandbox::Child& one) { return one.wait(0ms).has_value(); });
  if (stuck_.size() >= max_stuck) return false;
  const auto* filter = reader_filter();
  void* room = ::mmap(nullptr, sizeof(SharedBuffer), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return false;
  buffer_.reset(new (room) SharedBuffer);
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return false;
  socket_ = FileDescriptor(pair[0]);
  const FileDescriptor its(pair[1]);
  const pid_t parent = ::getpid();
  sandbox::SeatReservation reserved;
  auto child = sandbox::Child::start(sandbox::Kind::quiet,
                                     [&] { serve(*buffer_, its.get(), parent, filter); });
  // The next child of our program has no business at it.
  ::madvise(room, sizeof(SharedBuffer), MADV_DONTFORK);
  if (!child) return false;
  seat_ = std::make_unique<sandbox::Seat>(reserved, sandbox::Seat::Kind::reader, std::move(*child),
                                          idle_for_ever);
  return seat_->process().handle() >= 0;
}

/// False: there is none.
bool MemoryReader::claim() {
  if (seat_ && seat_->claim()) return true;
  forget_after_fork();
  seat_.reset();  // it was ended to make room, if there was one
  return false;
}

void MemoryReader::release() {
  if (seat_) seat_->release();
}

void MemoryReader::start() {
  if (!claim()) static_cast<void>(begin());
  release();
}

void MemoryReader::dismiss() {
  socket_ = FileDescriptor();
  if (seat_ && seat_->claim()) {
    sandbox::Child& child = seat_->process();
    child.kill();
    const auto end = Clock::now() + time_to_die;
    while (child && Clock::now() < end) static_cast<void>(child.wait(20ms));
    if (child) stuck_.push_back(std::move(child));
  }
  seat_.reset();
}

MemoryReader::Response MemoryReader::ask(const Request& request, Clock::duration time) {
  const auto fill = [&] {
    buffer_->tid = request.file >= 0 ? SharedBuffer::of_file : request.tid;
    buffer_->one_by_one = request.one_by_one;
    buffer_->count = static_cast<std::uint32_t>(request.parts.size());
    std::ranges::copy(request.parts, buffer_->parts);
  };
  const auto response = ask_by(fill, request.file, time);
  release();
  return response;
}

MemoryReader::Response MemoryReader::ask(const ProcRequest& request, Clock::duration time) {
  const std::size_t size = std::strlen(request.path);
  if (size >= sizeof buffer_->path) return {{}, ENAMETOOLONG, false, false};
  const auto fill = [&] {
    buffer_->tid = SharedBuffer::of_proc;
    buffer_->proc = request.what;
    buffer_->goes_on = request.directory < 0;
    buffer_->from = request.from;
    std::memcpy(buffer_->path, request.path, size + 1);
  };
  if (request.directory < 0 && own_proc_ >= 0) {
    fill();
    return read_in_process(-1);
  }
  auto response = ask_by(fill, request.directory, time);
  response.more = response.error == 0 && !response.stalled && buffer_ && buffer_->more;
  if (!response.more) release();  // else it has the file open, until end_file()
  // We may have rights over the process that the reader has not: it is our child, or has our
  // capabilities. It waited for the locks before it was refused, so they are free now.
  const bool refused = !response.stalled && (response.error == EPERM || response.error == EACCES);
  return refused && request.directory >= 0 ? read_in_process(request.directory) : response;
}

void MemoryReader::end_file() {
  if (own_proc_ >= 0) ::close(std::exchange(own_proc_, -1));
  release();
}

/// The request that is in the buffer.
MemoryReader::Response MemoryReader::read_in_process(int directory) {
  ProcFile file(own_proc_);
  file.read(*buffer_, directory);
  own_proc_ = file.release();
  return {{buffer_->bytes, static_cast<std::size_t>(buffer_->done.load())},
          buffer_->error,
          false,
          buffer_->more};
}

/// `fill` puts the request into the buffer; `descriptor` (-1: none) goes with it. The seat stays claimed.
template <class Fill>
MemoryReader::Response MemoryReader::ask_by(Fill fill, int descriptor, Clock::duration time) {
  for (int attempt = 0; attempt < max_attempts; ++attempt) {
    if (!claim() && !begin()) continue;  // what it lacks may be there again
    fill();
    buffer_->done = 0;
    const std::uint32_t number = buffer_->requested.load() + 1;
    buffer_->requested = number;
    if (descriptor >= 0 || buffer_->reader_sleeps.load() != 0) ring(socket_.get(), descriptor);
    const Outcome outcome = wait(number, time);
    // A reader that stalls is of no use any more. The buffer is, until there is another.
    if (outcome != Outcome::completed) dismiss();
    if (outcome == Outcome::ended) continue;
    const std::uint64_t done =
        std::min<std::uint64_t>(buffer_->done.load(), SharedBuffer::max_bytes);
    const bool stalled = outcome == Outcome::stalled;
    return {{buffer_->bytes, static_cast<std::size_t>(done)},
            stalled ? 0 : buffer_->error,
            stalled,
            false};
  }
  return {{}, EAGAIN, false, false};
}

MemoryReader::Outcome MemoryReader::wait(std::uint32_t number, Clock::duration time) {
  const auto completed = [&] { return buffer_->completed.load() == number; };
  if (spin_.until(completed)) return Outcome::completed;
  const auto begin = Clock::now();
  auto until = begin + time;
  buffer_->asker_sleeps = 1;
  while (!completed()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    pollfd either[] = {{socket_.get(), POLLIN, 0}, {seat_->process().handle(), POLLIN, 0}};
    ::poll(either, 2, static_cast<int>(std::max(left, 0ms).count()));
    char byte = 0;
    if (either[0].revents != 0) static_cast<void>(::recv(socket_.get(), &byte, 1, MSG_DONTWAIT));
    if (completed()) break;
    if (either[1].revents != 0) return Outcome::ended;
    const auto now = Clock::now();
    if (now < until) continue;
    if (is_stuck(number) || now - begin > time + time_to_run)
      return completed() ? Outcome::completed : Outcome::stalled;
    until = now + 10ms;
  }
  buffer_->asker_sleeps = 0;
  return Outcome::completed;
}

/// Whether it waits for what it is to read, and not for a processor, or for us.
bool MemoryReader::is_stuck(std::uint32_t number) {
  const auto line = read_file_at(AT_FDCWD, fmt::format("/proc/{}/stat", pid()), 4096);
  const auto stat = line.and_then(parse_stat);
  if (!stat) return true;
  if (stat->state == 'S' && buffer_->reader_sleeps.load() != 0) {
    ring(socket_.get());
    return false;
  }
  if (buffer_->taken.load() != number) return stat->state == 'T';  // it has only just begun to live
  return stat->state != 'R';
}

}  // namespace vitrine::target
