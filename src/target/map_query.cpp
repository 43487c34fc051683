#include "target/map_query.hpp"

#include <sys/ioctl.h>
#include <sys/sysmacros.h>

#include <cerrno>

namespace vitrine::target {
namespace {

// The kernel's interface (include/uapi/linux/fs.h of Linux 6.11), younger than Debian's headers.
struct ProcmapQuery {
  std::uint64_t size = sizeof(ProcmapQuery);
  std::uint64_t flags = 0;
  std::uint64_t address = 0;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t permissions = 0;
  std::uint64_t page_size = 0;
  std::uint64_t offset = 0;
  std::uint64_t inode = 0;
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;
  std::uint32_t name_size = 0;  ///< of the buffer; then of the name, its NUL included
  std::uint32_t build_id_size = 0;
  std::uint64_t name = 0;
  std::uint64_t build_id = 0;
};
static_assert(sizeof(ProcmapQuery) == 104);
constexpr unsigned long procmap_query = _IOWR('f', 17, ProcmapQuery);

enum : std::uint64_t {
  vma_readable = 0x01,
  vma_writable = 0x02,
  vma_executable = 0x04,
  vma_shared = 0x08,
  covering_or_next = 0x10,
  file_backed = 0x20,
};

}  // namespace

bool query_mapping(int maps, Address address, QueryFilter filter, Mapping& mapping) {
  char name[4096 + 64];
  ProcmapQuery request;
  request.flags = covering_or_next |
                  (filter == QueryFilter::readable ? file_backed | vma_readable : +vma_executable);
  request.address = address;
  request.name_size = sizeof name;
  request.name = reinterpret_cast<std::uintptr_t>(name);
  if (ioctl(maps, procmap_query, &request) != 0) {
    if (errno != ENAMETOOLONG) return false;
    // A path longer than any that can be opened: only where the mapping ends is of interest.
    request.size = sizeof request;
    request.name_size = 0;
    request.name = 0;
    if (ioctl(maps, procmap_query, &request) != 0) return false;
  }
  mapping.start = request.start;
  mapping.end = request.end;
  mapping.readable = (request.permissions & vma_readable) != 0;
  mapping.writable = (request.permissions & vma_writable) != 0;
  mapping.executable = (request.permissions & vma_executable) != 0;
  mapping.shared = (request.permissions & vma_shared) != 0;
  mapping.offset = request.offset;
  mapping.inode = request.inode;
  mapping.device = makedev(request.device_major, request.device_minor);
  mapping.name.assign(name, request.name_size > 0 ? request.name_size - 1 : 0);
  return true;
}

}  // namespace vitrine::target
