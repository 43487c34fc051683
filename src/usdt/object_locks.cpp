#include "usdt/object_locks.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <map>
#include <utility>

#include "base/file_descriptor.hpp"
#include "sandbox/files.hpp"

namespace vitrine::usdt {
namespace {

/// Each failure is a step that finished, or a compiler.
constexpr int max_tries = 10'000;

/// Device and inode.
using Identity = std::pair<dev_t, ino_t>;

struct Opened {
  FileDescriptor file;
  std::vector<const std::string*> paths;
};

/// In the order in which they are locked; a file of several names (hard links) is there once.
using Files = std::map<Identity, Opened>;

/// A file without locks stays unlocked.
void lock_file(int file, int command) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  while (::fcntl(file, command, &whole) != 0 && errno == EINTR) {
  }
}

Result<Files> open_all(std::span<const std::string> paths) {
  Files files;
  for (const std::string& path : paths) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!file && (errno == EMFILE || errno == ENFILE))
      return fail(ErrorCode::limit, path + " cannot be locked: too many open files",
                  "raise the limit (ulimit -n), or give fewer objects");
    if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    Opened& opened = files[{status.st_dev, status.st_ino}];
    if (!opened.file) opened.file = std::move(file);
    opened.paths.push_back(&path);
  }
  return files;
}

bool is_at(const std::string& path, const Identity& identity) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && Identity(status.st_dev, status.st_ino) == identity;
}

/// The path of one that was replaced before it was locked; null: all are as they were.
const std::string* replaced_one(const Files& files) {
  for (const auto& [identity, opened] : files)
    for (const std::string* path : opened.paths)
      if (!is_at(*path, identity)) return path;
  return nullptr;
}

}  // namespace

Result<void> ObjectLocks::lock(std::span<const std::string> paths) {
  allow_many_files();
  for (int tries = 1;; ++tries) {
    auto files = TRY(open_all(paths));
    for (const auto& [identity, opened] : files) lock_file(opened.file.get(), F_OFD_SETLKW);
    const std::string* replaced = replaced_one(files);
    if (replaced == nullptr) {
      for (auto& [identity, opened] : files) files_.push_back(std::move(opened.file));
      return {};
    }
    if (tries == max_tries)
      return fail(ErrorCode::failed,
                  *replaced + " cannot be locked: another program keeps replacing it",
                  "run the step when the object is complete");
  }
}

void ObjectLocks::lock_new(int file) {
  lock_file(file, F_OFD_SETLK);
}

}  // namespace vitrine::usdt
