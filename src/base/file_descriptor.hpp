// FileDescriptor, which owns one, and reading and writing what is open.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace vitrine {

/// Closes its descriptor. -1: none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  [[nodiscard]] int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

  /// Some file systems report only here that the disk is full.
  [[nodiscard]] bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_ = -1;
};

/// What is left of a file, a pipe or a socket; `most` bytes where there is more. A signal interrupts it only once
/// `stop` is true. Error: the errno of read(2), EINTR where it was stopped.
tl::expected<std::string, int> read_all(int file, std::size_t most,
                                        const std::atomic<bool>* stop = nullptr);

/// Writes all bytes, whatever signals come. Returns the errno of write(2); 0: all are written.
int write_all(int file, std::span<const std::byte> bytes);
inline int write_all(int file, std::string_view text) {
  return write_all(file, std::as_bytes(std::span(text)));
}

/// As many open files as this process is allowed at all (its hard limit): each site of a probe and each process that is
/// profiled takes some. Where that is refused, the limit stays.
void allow_many_files();
/// In a child that is to execute another program: the limit as it was before. Async-signal-safe.
void restore_file_limit();

}  // namespace vitrine
