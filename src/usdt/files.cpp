#include "usdt/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "sandbox/staged_file.hpp"

namespace vitrine::usdt {
namespace {

constexpr std::uint64_t max_bytes = 2ULL << 30;  // offsets in ELF32 end there

}  // namespace

Result<InputFile> open_input(const std::string& path) {
  // A pipe without a writer would hang.
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) return file_error(path, "read", errno);
  if (S_ISDIR(status.st_mode)) return fail(ErrorCode::usage, path + " is a directory");
  if (!S_ISREG(status.st_mode)) return fail(ErrorCode::usage, path + " is not a regular file");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size > max_bytes)
    return fail(ErrorCode::limit,
                fmt::format("{} has {} bytes; at most {} are read", path, size, max_bytes));
  return InputFile{std::move(file), size};
}

Result<std::vector<std::byte>> read_whole(const InputFile& file) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(file.size));
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = ::pread64(file.descriptor.get(), bytes.data() + have, bytes.size() - have,
                                  static_cast<off64_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return fail(ErrorCode::failed, fmt::format("it cannot be read: {}", std::strerror(errno)));
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

namespace {

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

/// /dev/null, a pipe: nothing to rename over.
Result<bool> write_into(const std::string& path, std::string_view bytes) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.get() < 0) return file_error(path, "written", errno);
  while (!bytes.empty()) {
    const ssize_t put = ::write(file.get(), bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return file_error(path, "written", errno);
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
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

}  // namespace vitrine::usdt
