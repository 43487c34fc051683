#include "cli/shell/output_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <span>

namespace vitrine::cli {
namespace {

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

Result<void> check_writable(const std::string& path, sandbox::StagedFile::Access access) {
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  Result<void> tried;
  if (path.ends_with('/')) {
    tried = sandbox::file_error(path, "written", EISDIR);
  } else if (exists && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {  // a pipe, a device
    if (::access(path.c_str(), W_OK) != 0) tried = sandbox::file_error(path, "written", errno);
  } else if (auto staged = sandbox::StagedFile::write(path, std::span<const std::byte>(),
                                                      sandbox::StagedFile::Time::now, access);
             !staged) {
    // Tried as it will be done: some directories (/proc) appear writable, and are not.
    tried = tl::unexpected(std::move(staged.error()));
  }
  if (!tried) tried.error().remedy = "give -o a file in a writable directory";
  return tried;
}

bool is_users_own(const std::string& path) {
  if (path == "-") return true;
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 &&
      (status.st_uid != ::geteuid() || status.st_gid != ::getegid()))
    return false;
  return ::stat(directory_of(path).c_str(), &status) == 0 && status.st_uid == ::geteuid() &&
         (status.st_mode & S_IRWXU) == S_IRWXU;
}

}  // namespace vitrine::cli
