#include "file/file_memory.hpp"

#include <sys/stat.h>
#include <unistd.h>

namespace vitrine::file {

Result<std::unique_ptr<FileMemory>> FileMemory::from(FileDescriptor file) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return fail(ErrorCode::failed, "cannot examine the file");
  if (!S_ISREG(status.st_mode)) return fail(ErrorCode::unsupported, "it is not a regular file");
  const FileIdentity identity{status.st_dev, status.st_ino, status.st_size,
                              status.st_ctim.tv_sec * 1'000'000'000 + status.st_ctim.tv_nsec};
  return std::unique_ptr<FileMemory>(new FileMemory(std::move(file), identity));
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
