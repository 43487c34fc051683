#include "usdt/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "usdt/descriptor.hpp"
#include "usdt/staged_file.hpp"

namespace vitrine::usdt {
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
