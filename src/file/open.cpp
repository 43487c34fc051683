#include "file/open.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace vitrine::file {

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

}  // namespace vitrine::file
