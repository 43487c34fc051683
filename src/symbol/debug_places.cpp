#include "symbol/debug_places.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "file/regular_file.hpp"

namespace vitrine::symbol {
namespace {

/// Of /proc and the like, whose files are empty by their own account, a worker gets none.
bool is_elf(int descriptor) {
  struct stat status {};
  char magic[4] = {};
  return ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_size >= 64 &&
         ::pread(descriptor, magic, sizeof magic, 0) == sizeof magic &&
         std::memcmp(magic, "\177ELF", sizeof magic) == 0;
}

FileDescriptor open_in(const DebugPlaces& places, std::size_t root, const std::string& path) {
  auto opened = places.roots.empty() ? file::open_regular_at(AT_FDCWD, path)
                                     : file::open_regular_below(places.roots[root], path);
  return opened && is_elf(opened->get()) ? std::move(*opened) : FileDescriptor();
}

std::size_t root_count(const DebugPlaces& places) {
  return std::max<std::size_t>(places.roots.size(), 1);
}

}  // namespace

DebugSearch DebugPlaces::search() const {
  return {path, static_cast<std::uint32_t>(root_count(*this))};
}

worker::Open DebugPlaces::open() const {
  return [this](std::uint32_t root, const std::string& asked) -> FileDescriptor {
    if (asked.empty()) return {};
    std::string whole = asked;
    if (asked[0] != '/') {
      const std::size_t slash = path.rfind('/');
      if (slash == path.npos) return {};
      whole = path.substr(0, slash + 1) + asked;
    }
    if (root < root_count(*this)) return open_in(*this, root, whole);
    if (root != worker::any_root) return {};
    for (std::size_t each = 0; each < root_count(*this); ++each)
      if (auto opened = open_in(*this, each, whole)) return opened;
    return {};
  };
}

}  // namespace vitrine::symbol
