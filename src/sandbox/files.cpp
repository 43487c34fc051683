#include "sandbox/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "sandbox/file_opener.hpp"

namespace vitrine::sandbox {

ErrorCode code_of(int error) {
  switch (error) {
    case ENOENT:
    case ESRCH:
      return ErrorCode::not_found;
    case EACCES:
    case EPERM:
      return ErrorCode::not_permitted;
    default:
      return ErrorCode::failed;
  }
}

Result<FileDescriptor> open_at(int dir, const std::string& path, int flags) {
  FileDescriptor fd(::openat(dir, path.c_str(), flags | O_CLOEXEC));
  if (fd) return fd;
  const int error = errno;
  return fail(code_of(error), fmt::format("cannot open {}: {}", path, std::strerror(error)));
}

namespace {

const char* kind(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISLNK(mode)) return "a link";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "not a regular file";
}

/// A program that holds a lease on a file (fcntl(2), F_SETLEASE) is asked for it when a process
/// opens the file, and may let them wait for /proc/sys/fs/lease-break-time: 45 s. An honest one
/// gives it back at once.
constexpr auto budget_with_leases = std::chrono::milliseconds(500);

Result<FileDescriptor> open_leased(const std::string& link, const std::string& path) {
  const auto end = std::chrono::steady_clock::now() + budget_with_leases;
  for (;;) {
    auto file = open_at(AT_FDCWD, link, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (file) return file;
    const int error = errno;
    if (error != EWOULDBLOCK)
      return fail(file.error().code, fmt::format("cannot open {}: {}", path, std::strerror(error)));
    if (std::chrono::steady_clock::now() >= end)
      return fail(
          ErrorCode::failed,
          fmt::format("cannot open {}: a program holds a lease on it and does not release it",
                      path));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

/// `handle` (O_PATH) has not been opened yet as far as the file is concerned.
Result<FileDescriptor> reopen(int handle, const std::string& path) {
  struct stat status {};
  if (::fstat(handle, &status) != 0)
    return fail(ErrorCode::failed,
                fmt::format("cannot examine {}: {}", path, std::strerror(errno)));
  if (!S_ISREG(status.st_mode))
    return fail(ErrorCode::unsupported, fmt::format("{} is {}", path, kind(status.st_mode)),
                "a regular file is required");
  return open_leased(fmt::format("/proc/self/fd/{}", handle), path);
}

/// A handle as reopen() takes it.
Result<FileDescriptor> handle_below(int root, const std::string& path, std::uint64_t flags) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC | flags;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  FileDescriptor handle(
      static_cast<int>(::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how)));
  if (handle) return handle;
  const ErrorCode code = errno == ENOENT || errno == ENOTDIR ? ErrorCode::not_found
                         : errno == EACCES || errno == EPERM ? ErrorCode::not_permitted
                         : errno == ENOSYS                   ? ErrorCode::unsupported
                                                             : ErrorCode::failed;
  return fail(code, fmt::format("cannot open {}: {}", path, std::strerror(errno)));
}

}  // namespace

Result<OpenedFile> open_at_once(const OpenRequest& request) {
  const auto& [named, descriptor, path, owner] = request;
  if (named == Named::handle) return reopen(descriptor, path);
  auto handle = TRY(named == Named::at
                        ? open_at(descriptor, path, O_PATH)
                        : handle_below(descriptor, path, named == Named::owned ? O_NOFOLLOW : 0));
  struct stat status {};
  if (named == Named::owned && ::fstat(handle.get(), &status) == 0 && S_ISREG(status.st_mode) &&
      status.st_uid != owner)
    return fail(ErrorCode::not_permitted,
                fmt::format("{} belongs to user {}, but the process runs as {}: ignored", path,
                            status.st_uid, owner));
  auto file = TRY(reopen(handle.get(), path));
  return OpenedFile(std::move(file), std::move(handle));
}

namespace {

/// By us where all that the path may lead to answers, else by a process that can be left behind.
Result<OpenedFile> open_path(const OpenRequest& request) {
  if (!all_answer(request.descriptor)) return FileOpener::of_this_thread().open(request);
  auto file = TRY(open_at_once(request));
  file.original = FileDescriptor();
  return file;
}

}  // namespace

/// Below /proc there is no way but to what a process has open; else it is a path of our user's.
Result<OpenedFile> open_regular_at(int dir, const std::string& path) {
  if (dir == AT_FDCWD) return open_path({Named::at, dir, path});
  const auto handle = TRY(open_at(dir, path, O_PATH));
  const OpenRequest request{Named::handle, handle.get(), path};
  return answers(handle.get()) ? open_at_once(request) : FileOpener::of_this_thread().open(request);
}

Result<OpenedFile> open_regular_below(int root, const std::string& path) {
  return open_path({Named::below, root, path});
}

Result<OpenedFile> open_owned_below(int root, const std::string& path, uid_t owner) {
  return open_path({Named::owned, root, path, owner});
}

PlaceIdentity place_identity(int directory) {
  struct statx status {};
  if (::statx(directory, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO | STATX_MNT_ID,
              &status) != 0)
    return {};
  return {(status.stx_mask & STATX_MNT_ID) != 0 ? status.stx_mnt_id : 0,
          makedev(status.stx_dev_major, status.stx_dev_minor), status.stx_ino};
}

namespace {

struct Examined {
  FileIdentity identity;
  bool is_regular = false;
};

/// As this machine knows it: no server is asked. A worker has no statx (which its libc may report by
/// another error than ENOSYS), and may wait within its time.
std::optional<Examined> examine(int file) {
  struct statx known {};
  if (::statx(file, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &known) == 0)
    return Examined{{makedev(known.stx_dev_major, known.stx_dev_minor), known.stx_ino,
                     static_cast<std::int64_t>(known.stx_size),
                     known.stx_ctime.tv_sec * 1'000'000'000 + known.stx_ctime.tv_nsec},
                    S_ISREG(known.stx_mode)};
  struct stat status {};
  if (::fstat(file, &status) != 0) return std::nullopt;
  return Examined{{status.st_dev, status.st_ino, status.st_size,
                   status.st_ctim.tv_sec * 1'000'000'000 + status.st_ctim.tv_nsec},
                  S_ISREG(status.st_mode)};
}

}  // namespace

Result<std::unique_ptr<FileMemory>> FileMemory::from(OpenedFile file) {
  const auto examined = examine(file.get());
  if (!examined) return fail(ErrorCode::failed, "cannot examine the file");
  if (!examined->is_regular) return fail(ErrorCode::unsupported, "it is not a regular file");
  return std::unique_ptr<FileMemory>(new FileMemory(std::move(file), examined->identity));
}

bool FileMemory::has_changed() const {
  const auto examined = examine(file_.get());
  return !examined || examined->identity != identity_;
}

Result<std::unique_ptr<FileMemory>> FileMemory::reopened() const {
  return from(FileDescriptor(::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0)));
}

void FileMemory::read(std::span<ReadRequest> requests) {
  for (ReadRequest& request : requests) {
    request.got = 0;
    while (!request.complete()) {
      const auto rest = request.into.subspan(request.got);
      const ssize_t n = ::pread64(file_.get(), rest.data(), rest.size(),
                                  static_cast<off64_t>(request.address + request.got));
      if (n <= 0) break;
      request.got += static_cast<std::size_t>(n);
    }
  }
}

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
  FileDescriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file) return file_error(path, written, errno);
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

namespace {

bool holds(const std::string& path, const struct stat& status, std::string_view bytes) {
  if (static_cast<std::uint64_t>(status.st_size) != bytes.size()) return false;
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return false;
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

/// /dev/null, a pipe: nothing to rename over.
Result<bool> write_into(const std::string& path, std::string_view bytes) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) return file_error(path, written, errno);
  if (const int error = write_all(file.get(), std::as_bytes(std::span(bytes))))
    return file_error(path, written, error);
  return true;
}

}  // namespace

Result<bool> write_whole(const std::string& path, std::string_view bytes) {
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISREG(status.st_mode) && holds(path, status, bytes)) return false;
  if (exists && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
    return write_into(path, bytes);
  auto staged = TRY(StagedFile::write(path, std::as_bytes(std::span(bytes))));
  TRY(staged.put_in_place());
  return true;
}

}  // namespace vitrine::sandbox
