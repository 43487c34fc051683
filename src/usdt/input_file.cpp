#include "usdt/input_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "usdt/staged_file.hpp"

namespace vitrine::usdt {
namespace {

constexpr std::uint64_t most_bytes = 2ULL << 30;  // offsets in ELF32 end there

}  // namespace

Result<InputFile> open_input(const std::string& path) {
  // A pipe without a writer would hang.
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) return file_error(path, "read", errno);
  if (S_ISDIR(status.st_mode)) return fail(ErrorCode::usage, path + " is a directory");
  if (!S_ISREG(status.st_mode)) return fail(ErrorCode::usage, path + " is not a regular file");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size > most_bytes)
    return fail(ErrorCode::limit,
                fmt::format("{} has {} bytes; at most {} are read", path, size, most_bytes));
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

}  // namespace vitrine::usdt
