#include "file/file_memory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace vitrine::file {
namespace {

FileIdentity identity_of(const struct stat& status) {
  return {status.st_dev, status.st_ino, status.st_size,
          status.st_ctim.tv_sec * 1'000'000'000 + status.st_ctim.tv_nsec};
}

}  // namespace

Result<std::unique_ptr<FileMemory>> FileMemory::from(FileDescriptor file) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return fail(ErrorCode::failed, "cannot examine the file");
  if (!S_ISREG(status.st_mode)) return fail(ErrorCode::unsupported, "it is not a regular file");
  return std::unique_ptr<FileMemory>(new FileMemory(std::move(file), identity_of(status)));
}

bool FileMemory::has_changed() const {
  struct stat status {};
  return ::fstat(file_.get(), &status) != 0 || identity_of(status) != identity_;
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

}  // namespace vitrine::file
