// A file descriptor that closes itself.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "base/result.hpp"

namespace vitrine::usdt {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  [[nodiscard]] int get() const { return fd_; }

  /// Some file systems tell only here that the disk is full.
  [[nodiscard]] bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

// Files that change together or not at all.

/// A file's new content, whole and on disk beside the file, not yet in its place. What is never put
/// in place is removed.
class StagedFile {
 public:
  enum class Time {
    now,
    kept,  ///< of a file that exists: Ninja makes again what is not of the time it recorded
  };

  /// A file that exists keeps its permissions, and must be one that the caller may write to; a
  /// symbolic link is followed. Errors: not_found (no such directory), not_permitted, failed.
  static Result<StagedFile> write(const std::string& path, std::span<const std::byte> bytes,
                                  Time time = Time::now);

  StagedFile(StagedFile&& other) noexcept;
  StagedFile& operator=(StagedFile&&) = delete;
  ~StagedFile();

  /// Errors: as write().
  Result<void> put_in_place();

  /// Takes back what put_in_place() did, where the file system can exchange two files (overlayfs
  /// and network file systems may not).
  void put_back() noexcept;

 private:
  enum class State { staged, exchanged, created, replaced, gone };

  StagedFile(std::string path, std::string target, std::string temporary)
      : path_(std::move(path)), target_(std::move(target)), temporary_(std::move(temporary)) {}

  std::string path_;       ///< as the caller calls it
  std::string target_;     ///< without symbolic links
  std::string temporary_;  ///< beside it
  State state_ = State::staged;
};

/// For messages: "foo.o cannot be written: No space left on device".
tl::unexpected<Error> file_error(const std::string& path, const char* what, int number);

}  // namespace vitrine::usdt
