#include "usdt/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace vitrine::usdt {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  /// Some file systems tell only here that the disk is full.
  bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

tl::unexpected<Error> refused(const std::string& path, int number) {
  ErrorCode code = ErrorCode::failed;
  if (number == ENOENT || number == ENOTDIR) code = ErrorCode::not_found;
  if (number == EACCES || number == EPERM || number == EROFS) code = ErrorCode::not_permitted;
  return fail(code, fmt::format("{} cannot be written: {}", path, std::strerror(number)));
}

bool holds(const std::string& path, const struct stat& status, std::string_view bytes) {
  if (static_cast<std::uint64_t>(status.st_size) != bytes.size()) return false;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return false;
  std::array<char, 64 * 1024> piece;
  while (!bytes.empty()) {
    const ssize_t got = ::read(file.get(), piece.data(), std::min(piece.size(), bytes.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    const auto count = static_cast<std::size_t>(got);
    if (std::memcmp(piece.data(), bytes.data(), count) != 0) return false;
    bytes.remove_prefix(count);
  }
  return true;
}

int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return 0;
}

mode_t new_file_mode() {
  const mode_t mask = ::umask(0);  // the only way to ask
  ::umask(mask);
  return 0666 & ~mask;
}

}  // namespace

Result<bool> write_whole(const std::string& path, std::string_view bytes) {
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISREG(status.st_mode) && holds(path, status, bytes)) return false;
  if (exists && !S_ISREG(status.st_mode)) {  // /dev/null, a pipe: nothing to rename over
    if (S_ISDIR(status.st_mode)) return refused(path, EISDIR);
    Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (file.get() < 0) return refused(path, errno);
    if (const int error = write_all(file.get(), bytes)) return refused(path, error);
    return true;
  }
  // Renaming over a symbolic link would put a file in its place.
  std::string real = path;
  if (exists) {
    if (char* resolved = ::realpath(path.c_str(), nullptr)) {
      real = resolved;
      std::free(resolved);
    }
  }
  std::string temporary = real + ".XXXXXX";
  Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) return refused(path, errno);
  int error = write_all(file.get(), bytes);
  if (error == 0 && ::fchmod(file.get(), exists ? status.st_mode & 07777 : new_file_mode()) != 0)
    error = errno;
  if (!file.close() && error == 0) error = errno;
  if (error == 0 && ::rename(temporary.c_str(), real.c_str()) != 0) error = errno;
  if (error == 0) return true;
  ::unlink(temporary.c_str());
  return refused(path, error);
}

}  // namespace vitrine::usdt
