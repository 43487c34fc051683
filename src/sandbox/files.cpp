#include "sandbox/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
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

#include "base/limits.hpp"
#include "sandbox/file_opener.hpp"
#include "sandbox/mounts.hpp"

namespace vitrine::sandbox {

Result<FileDescriptor> open_at(int dir, const std::string& path, int flags) {
  FileDescriptor fd(::openat(dir, path.c_str(), flags | O_CLOEXEC));
  if (fd) return fd;
  const int error = errno;
  return fail(code_of_errno(error), fmt::format("cannot open {}: {}", path, std::strerror(error)));
}

namespace {

/// Of a path that the user gave. Empty: the error names the problem itself.
const char* remedy_of_path(ErrorCode code) {
  switch (code) {
    case ErrorCode::not_found:
      return "check the path: a relative one begins at the working directory";
    case ErrorCode::not_permitted:
      return "check the permissions of the file and of its directories (ls -ld), or choose another";
    default:
      return "";
  }
}

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
  const ErrorCode code = errno == ENOSYS ? ErrorCode::unsupported : code_of_errno(errno);
  return fail(code, fmt::format("cannot open {}: {}", path, std::strerror(errno)));
}

}  // namespace

std::optional<std::string> find_program(std::string_view name) {
  const char* const path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): nothing sets it
  if (path == nullptr || *path == '\0') return std::nullopt;
  std::string_view rest = path;
  for (bool more = true; more;) {
    const std::size_t colon = rest.find(':');
    more = colon != rest.npos;
    const std::string_view directory = rest.substr(0, colon);
    // An empty one is the working directory (POSIX, 8.3).
    std::string file = fmt::format("{}/{}", directory.empty() ? "." : directory, name);
    struct stat status {};
    if (::access(file.c_str(), X_OK) == 0 && ::stat(file.c_str(), &status) == 0 &&
        S_ISREG(status.st_mode))
      return file;
    if (more) rest.remove_prefix(colon + 1);
  }
  return std::nullopt;
}

Result<OpenedFile> open_at_once(const OpenRequest& request) {
  const auto& [named, descriptor, path, owner] = request;
  if (named == Named::handle) return reopen(descriptor, path);
  if (named == Named::unopened) return TRY(open_at(descriptor, path, O_PATH));
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

/// In this process where all that the path may lead to responds, else by a process that can be left behind.
Result<OpenedFile> open_path(const OpenRequest& request) {
  if (!all_respond(request.descriptor)) return FileOpener::of_this_process().open(request);
  auto file = TRY(open_at_once(request));
  file.original = FileDescriptor();
  return file;
}

}  // namespace

/// Below /proc there is no way but to what a process has open; else it is a path of our user's.
Result<OpenedFile> open_regular_at(int dir, const std::string& path) {
  if (path.find('\0') != std::string::npos)
    return fail(ErrorCode::not_found, "a path with a NUL in it names no file");
  if (dir == AT_FDCWD) {
    auto file = open_path({Named::at, dir, path});
    if (!file && file.error().remedy.empty())
      file.error().remedy = remedy_of_path(file.error().code);
    return file;
  }
  const auto handle = TRY(open_at(dir, path, O_PATH));
  const OpenRequest request{Named::handle, handle.get(), path};
  return responds(handle.get()) ? open_at_once(request)
                                : FileOpener::of_this_process().open(request);
}

Result<OpenedFile> open_regular_link(int dir, const std::string& path) {
  return FileOpener::of_this_process().open({Named::link, dir, path});
}

std::vector<Result<OpenedFile>> open_regular_links(int dir, std::span<const std::string> paths) {
  return FileOpener::of_this_process().open_links(dir, paths);
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

/// As this machine knows it: no server is asked. A worker has no statx (which its libc may report by
/// another error than ENOSYS), and may wait within its time.
std::optional<FileStatus> examine(int file) {
  struct statx known {};
  if (::statx(file, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &known) == 0)
    return FileStatus{{makedev(known.stx_dev_major, known.stx_dev_minor), known.stx_ino,
                       static_cast<std::int64_t>(known.stx_size),
                       known.stx_ctime.tv_sec * 1'000'000'000 + known.stx_ctime.tv_nsec},
                      known.stx_mode};
  struct stat status {};
  if (::fstat(file, &status) != 0) return std::nullopt;
  return FileStatus{{status.st_dev, status.st_ino, status.st_size,
                     status.st_ctim.tv_sec * 1'000'000'000 + status.st_ctim.tv_nsec},
                    status.st_mode};
}

}  // namespace

Result<FileStatus> path_status(const std::string& path) {
  const auto handle = TRY(open_path({Named::unopened, AT_FDCWD, path}));
  if (const auto examined = examine(handle.get())) return *examined;
  return fail(ErrorCode::failed, fmt::format("cannot examine {}: {}", path, std::strerror(errno)));
}

Result<std::unique_ptr<FileMemory>> FileMemory::from(OpenedFile file) {
  const auto examined = examine(file.get());
  if (!examined) return fail(ErrorCode::failed, "cannot examine the file");
  if (!S_ISREG(examined->mode)) return fail(ErrorCode::unsupported, "it is not a regular file");
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
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno != EINVAL) error_ = errno;  // EINVAL: an address that no file has
      if (n <= 0) break;
      request.got += static_cast<std::size_t>(n);
    }
  }
}

namespace {

constexpr const char* written = "written";

Content content_of(std::span<const std::byte> bytes) {
  return [bytes](const auto& add) {
    return add({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  };
}

/// Writes a content into the open file that the caller calls `path`.
Result<void> put(const Content& content, int fd, const std::string& path) {
  return content([&](std::string_view piece) -> Result<void> {
    if (const int error = write_all(fd, piece)) return file_error(path, written, error);
    return {};
  });
}

/// The owner that a followed link, or a pipe that is written into, may have.
bool is_trusted(uid_t owner) {
  return owner == 0 || owner == ::geteuid();
}

/// Where a path leads: a name in a directory that stays the same whatever becomes of the path.
struct WritePlace {
  FileDescriptor directory;
  std::string name;  ///< of no link
  bool exists = false;
  struct stat status {};  ///< of what has the name
};

std::string target_of_link(int link) {
  std::string target(limits::name_bytes, '\0');
  const ssize_t n = ::readlinkat(link, "", target.data(), target.size());
  target.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  return target;
}

/// The directories of a path are the caller's choice; the kernel looks them up once. Its last part
/// may be a link: one of another user is not followed, as its owner chose the place.
Result<WritePlace> write_place_of(const std::string& path) {
  constexpr int max_links = 40;  // the kernel's bound
  FileDescriptor base;           // of what a link names; none: the working directory
  std::string rest = path;
  for (int links = 0; links <= max_links; ++links) {
    const std::size_t slash = rest.rfind('/');
    WritePlace place;
    place.name = slash == std::string::npos ? rest : rest.substr(slash + 1);
    const std::string directory = slash == std::string::npos ? "." : rest.substr(0, slash + 1);
    place.directory = FileDescriptor(::openat(base ? base.get() : AT_FDCWD, directory.c_str(),
                                              O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!place.directory) return file_error(path, written, errno);
    if (place.name.empty()) place.name = ".";
    const int directory_fd = place.directory.get();
    if (::fstatat(directory_fd, place.name.c_str(), &place.status, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) return place;
      return file_error(path, written, errno);
    }
    place.exists = true;
    if (!S_ISLNK(place.status.st_mode)) return place;
    const FileDescriptor found(
        ::openat(directory_fd, place.name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!found || ::fstat(found.get(), &place.status) != 0) return file_error(path, written, errno);
    if (!S_ISLNK(place.status.st_mode)) return place;  // by now
    if (!is_trusted(place.status.st_uid))
      return fail(ErrorCode::not_permitted,
                  fmt::format("{} cannot be written: it is a symbolic link of another user", path));
    rest = target_of_link(found.get());
    base = std::move(place.directory);
  }
  return file_error(path, written, ELOOP);
}

/// Whether a file that is replaced passes its owner and mode on. Not where others could have put
/// it there, or have linked it to there, to be given what replaces it.
bool passes_on(const WritePlace& place) {
  struct stat directory {};
  if (!place.exists || ::fstat(place.directory.get(), &directory) != 0) return false;
  const bool is_shared = (directory.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  const uid_t owner = place.status.st_uid;
  if (is_shared) return owner == ::geteuid() && place.status.st_nlink == 1;
  return is_trusted(directory.st_uid) || directory.st_uid == owner;
}

/// A file that was not there, with `mode` less the umask; `name` is what it is beside. mkostemp(3)
/// takes neither a directory nor a mode, and to ask for the umask is to change it for all threads.
FileDescriptor create_beside(int directory, std::string& name, mode_t mode) {
  constexpr std::string_view characters = "abcdefghijklmnopqrstuvwxyz0123456789";
  constexpr int max_tries = 100;
  for (int tries = 0; tries < max_tries; ++tries) {
    std::array<unsigned char, 6> random{};
    if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
      return {};
    std::string tried = name + '.';
    for (const unsigned char byte : random) tried += characters[byte % characters.size()];
    FileDescriptor file(::openat(directory, tried.c_str(),
                                 O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    if (file) name = std::move(tried);
    if (file || errno != EEXIST) return file;
  }
  return {};
}

bool swap_files(int directory, const std::string& a, const std::string& b) {
  return ::renameat2(directory, a.c_str(), directory, b.c_str(), RENAME_EXCHANGE) == 0;
}

}  // namespace

tl::unexpected<Error> file_error(const std::string& path, const char* what, int number) {
  const ErrorCode code = code_of_errno(number);
  return fail(code, fmt::format("{} cannot be {}: {}", path, what, std::strerror(number)),
              remedy_of_path(code));
}

Result<StagedFile> StagedFile::write(const std::string& path, std::span<const std::byte> bytes,
                                     Time time, Access access) {
  return write(path, content_of(bytes), time, access);
}

Result<StagedFile> StagedFile::write(const std::string& path, const Content& content, Time time,
                                     Access access) {
  auto place = TRY(write_place_of(path));
  const struct stat& status = place.status;
  const int directory = place.directory.get();
  if (place.exists && S_ISDIR(status.st_mode)) return file_error(path, written, EISDIR);
  if (place.exists && !S_ISREG(status.st_mode))
    return fail(ErrorCode::unsupported,
                fmt::format("{} cannot be written: it is {}", path, kind(status.st_mode)));
  if (place.exists &&
      ::faccessat(directory, place.name.c_str(), W_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW) != 0)
    return file_error(path, written, errno);
  const bool passed_on = passes_on(place);
  const mode_t mode = passed_on || access == Access::owner ? 0600 : 0666;
  std::string temporary = place.name;
  FileDescriptor file = create_beside(directory, temporary, mode);
  if (!file) return file_error(path, written, errno);
  StagedFile staged(path, std::move(place.directory), place.name, temporary,
                    FileDescriptor(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0)));
  if (!staged.file_) return file_error(path, written, errno);
  TRY(put(content, file.get(), path));
  if (passed_on) {
    if ((status.st_uid != ::geteuid() || status.st_gid != ::getegid()) &&
        ::fchown(file.get(), status.st_uid, status.st_gid) != 0 && errno != EPERM)
      return file_error(path, written, errno);
    if (::fchmod(file.get(), status.st_mode & 0777) != 0) return file_error(path, written, errno);
  }
  const timespec times[] = {{0, UTIME_OMIT}, status.st_mtim};
  if (place.exists && time == Time::kept && ::futimens(file.get(), times) != 0)
    return file_error(path, written, errno);
  if (!file.close()) return file_error(path, written, errno);
  return staged;
}

StagedFile::StagedFile(StagedFile&& other) noexcept
    : path_(std::move(other.path_)),
      directory_(std::move(other.directory_)),
      name_(std::move(other.name_)),
      temporary_(std::move(other.temporary_)),
      file_(std::move(other.file_)),
      state_(std::exchange(other.state_, State::gone)) {}

StagedFile::~StagedFile() {
  if (state_ == State::staged || state_ == State::exchanged)
    ::unlinkat(directory_.get(), temporary_.c_str(), 0);
}

Result<void> StagedFile::put_in_place() {
  const int directory = directory_.get();
  if (swap_files(directory, temporary_, name_)) {
    state_ = State::exchanged;  // the old file is where the new one was
    return {};
  }
  const bool is_new = errno == ENOENT;
  if (::renameat(directory, temporary_.c_str(), directory, name_.c_str()) != 0)
    return file_error(path_, written, errno);
  state_ = is_new ? State::created : State::replaced;
  return {};
}

void StagedFile::put_back() noexcept {
  if (state_ == State::exchanged && swap_files(directory_.get(), temporary_, name_))
    state_ = State::staged;
  if (state_ == State::created && ::unlinkat(directory_.get(), name_.c_str(), 0) == 0)
    state_ = State::gone;
}

Result<FileDescriptor> open_directory(const std::string& path) {
  std::string name = path;
  while (name.size() > 1 && name.back() == '/') name.pop_back();  // a link with a slash is a link
  const auto place = TRY(write_place_of(name));
  FileDescriptor directory(::openat(place.directory.get(), place.name.c_str(),
                                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory) return file_error(path, "opened", errno);
  return directory;
}

namespace {

bool holds(const std::string& path, std::string_view bytes) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      static_cast<std::uint64_t>(status.st_size) != bytes.size())
    return false;
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

/// A pipe that has a name: its owner may wait for what root writes.
bool is_pipe_of_another(const struct stat& status, const std::string& path) {
  if (!S_ISFIFO(status.st_mode) || is_trusted(status.st_uid)) return false;
  struct statfs system {};
  constexpr decltype(system.f_type) without_names = 0x50495045;  // PIPEFS_MAGIC: `>(command)`
  return ::statfs(path.c_str(), &system) != 0 || system.f_type != without_names;
}

/// /dev/null, a pipe: nothing to rename over.
Result<void> write_into(const std::string& path, const Content& content) {
  struct stat status {};
  const auto refused = [&] {
    return fail(ErrorCode::not_permitted,
                fmt::format("{} cannot be written: it is a pipe of another user", path));
  };
  if (::stat(path.c_str(), &status) == 0 && is_pipe_of_another(status, path)) return refused();
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC));
  if (!file || ::fstat(file.get(), &status) != 0) return file_error(path, written, errno);
  if (is_pipe_of_another(status, path)) return refused();
  if (S_ISREG(status.st_mode)) return file_error(path, written, ESTALE);  // by now
  return put(content, file.get(), path);
}

/// 0: there is nothing, or that cannot be known.
mode_t mode_of(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode : 0;
}

/// `mode`: of what is there.
Result<void> write_where(const std::string& path, mode_t mode, const Content& content,
                         StagedFile::Access access) {
  if (mode != 0 && !S_ISREG(mode) && !S_ISDIR(mode)) return write_into(path, content);
  auto staged = TRY(StagedFile::write(path, content, StagedFile::Time::now, access));
  return staged.put_in_place();
}

}  // namespace

Result<bool> write_whole(const std::string& path, std::string_view bytes,
                         StagedFile::Access access) {
  const mode_t mode = mode_of(path);
  if (S_ISREG(mode) && holds(path, bytes)) return false;
  TRY(write_where(path, mode, content_of(std::as_bytes(std::span(bytes))), access));
  return true;
}

Result<void> write_pieces(const std::string& path, const Content& content,
                          StagedFile::Access access) {
  return write_where(path, mode_of(path), content, access);
}

}  // namespace vitrine::sandbox
