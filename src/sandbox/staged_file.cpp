#include "sandbox/staged_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace vitrine::usdt {
namespace {

constexpr const char* written = "written";

int write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return 0;
}

mode_t new_file_mode() {
  const mode_t mask = ::umask(0);  // the only way to ask
  ::umask(mask);
  return 0666 & ~mask;
}

/// Renaming over a symbolic link would put a file in its place.
std::string without_links(const std::string& path) {
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return path;
  std::string target = resolved;
  std::free(resolved);
  return target;
}

bool swap_files(const std::string& a, const std::string& b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

}  // namespace

tl::unexpected<Error> file_error(const std::string& path, const char* what, int number) {
  ErrorCode code = ErrorCode::failed;
  if (number == ENOENT || number == ENOTDIR) code = ErrorCode::not_found;
  if (number == EACCES || number == EPERM || number == EROFS) code = ErrorCode::not_permitted;
  return fail(code, fmt::format("{} cannot be {}: {}", path, what, std::strerror(number)));
}

Result<StagedFile> StagedFile::write(const std::string& path, std::span<const std::byte> bytes,
                                     Time time) {
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) return file_error(path, written, EISDIR);
  if (exists && ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0)
    return file_error(path, written, errno);
  const std::string target = exists ? without_links(path) : path;
  std::string temporary = target + ".XXXXXX";
  Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) return file_error(path, written, errno);
  StagedFile staged(path, target, temporary);
  if (const int error = write_all(file.get(), bytes)) return file_error(path, written, error);
  if (exists && (status.st_uid != ::geteuid() || status.st_gid != ::getegid()) &&
      ::fchown(file.get(), status.st_uid, status.st_gid) != 0 && errno != EPERM)
    return file_error(path, written, errno);
  if (::fchmod(file.get(), exists ? status.st_mode & 07777 : new_file_mode()) != 0)
    return file_error(path, written, errno);
  const timespec times[] = {{0, UTIME_OMIT}, status.st_mtim};
  if (exists && time == Time::kept && ::futimens(file.get(), times) != 0)
    return file_error(path, written, errno);
  if (!file.close()) return file_error(path, written, errno);
  return staged;
}

StagedFile::StagedFile(StagedFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::move(other.temporary_)),
      state_(std::exchange(other.state_, State::gone)) {}

StagedFile::~StagedFile() {
  if (state_ == State::staged || state_ == State::exchanged) ::unlink(temporary_.c_str());
}

Result<void> StagedFile::put_in_place() {
  if (swap_files(temporary_, target_)) {
    state_ = State::exchanged;  // the old file is where the new one was
    return {};
  }
  const bool is_new = errno == ENOENT;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) return file_error(path_, written, errno);
  state_ = is_new ? State::created : State::replaced;
  return {};
}

void StagedFile::put_back() noexcept {
  if (state_ == State::exchanged && swap_files(temporary_, target_)) state_ = State::staged;
  if (state_ == State::created && ::unlink(target_.c_str()) == 0) state_ = State::gone;
}

}  // namespace vitrine::usdt
