// Finding the mappings that may hold a process context: by PROCMAP_QUERY, or in the text of maps.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "abi/process_context.hpp"
#include "base/limits.hpp"
#include "target/maps.hpp"
#include "target/proc_file.hpp"
#include "target/threads.hpp"

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

/// The next readable file mapping at or after `address`. errno ENOENT: none; ENOTTY: not known
/// here.
bool query(int maps, std::uint64_t address, Mapping& mapping) {
  char name[4096 + 64];
  ProcmapQuery request;
  request.flags = covering_or_next | file_backed | vma_readable;
  request.address = address;
  request.name_size = sizeof name;
  request.name = reinterpret_cast<std::uintptr_t>(name);
  if (ioctl(maps, procmap_query, &request) != 0) {
    if (errno != ENAMETOOLONG) return false;
    // A path that no context has; only where the mapping ends is of interest.
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
  mapping.name.assign(name, request.name_size > 0 ? request.name_size - 1 : 0);
  return true;
}

/// False: the list is full.
bool add(ContextMappings& found, Mapping mapping) {
  if (found.mappings.size() == limits::context_mappings) {
    found.truncated = true;
    return false;
  }
  found.mappings.push_back(std::move(mapping));
  return true;
}

/// Asks mapping by mapping. The error is errno.
tl::expected<ContextMappings, int> by_query(int maps) {
  ContextMappings found;
  Mapping mapping;
  std::uint64_t address = 0;
  for (std::size_t n = 0; n < limits::map_lines; ++n) {
    if (!query(maps, address, mapping)) {
      if (errno == ENOENT) return found;
      return tl::unexpected(errno);
    }
    if (mapping.end <= address) return found;
    address = mapping.end;
    if (may_be_context(mapping) && !add(found, mapping)) return found;
  }
  found.truncated = true;
  return found;
}

/// Reads the text. Only lines that name a context are parsed. The error is errno.
tl::expected<ContextMappings, int> by_text(int maps) {
  ContextMappings found;
  LineCutter lines;
  std::size_t count = 0;
  bool full = false;
  std::string chunk(64 * 1024, '\0');
  while (!full) {
    const ssize_t n = ::read(maps, chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return tl::unexpected(errno);
    if (n == 0 && count == 0) return tl::unexpected(ESRCH);  // no memory any more
    if (n == 0) return found;
    lines.feed({chunk.data(), static_cast<std::size_t>(n)}, [&](std::string_view line) {
      if (++count > limits::map_lines) full = found.truncated = true;
      if (full || line.find(abi::process_context::mapping_name) == line.npos) return;
      if (auto mapping = parse_mapping(line); mapping && may_be_context(*mapping))
        full = !add(found, std::move(*mapping));
    });
  }
  return found;
}

/// Whether this kernel lets a process name its anonymous memory (CONFIG_ANON_VMA_NAME).
bool anonymous_names() {
  static const bool supported = [] {
    constexpr unsigned long set_vma = 0x53564d41, anon_name = 0;  // PR_SET_VMA(_ANON_NAME)
    const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* page = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return true;
    const bool named =
        prctl(set_vma, anon_name, reinterpret_cast<unsigned long>(page), size, "vitrine") == 0;
    munmap(page, size);
    return named;
  }();
  return supported;
}

Result<ContextMappings> search(int proc_dir, const std::string& path) {
  const auto maps = open_at(proc_dir, path, O_RDONLY);
  if (!maps) return tl::unexpected(maps.error());
  auto found = by_query(maps->get());
  const bool unknown = !found && (found.error() == ENOTTY || found.error() == EINVAL);
  if (unknown || (found && found->mappings.empty() && anonymous_names()))
    found = by_text(maps->get());
  if (found) return std::move(*found);
  if (found.error() == ESRCH)
    return fail(ErrorCode::not_found, fmt::format("{}: the process has ended", path));
  return fail(ErrorCode::failed, fmt::format("{}: {}", path, std::strerror(found.error())));
}

}  // namespace

Result<ContextMappings> context_mappings(int proc_dir) {
  auto found = search(proc_dir, "maps");
  if (found || found.error().code != ErrorCode::not_found) return found;
  // The leader may have exited: its maps are empty, those of its threads are not.
  const auto live = live_thread(proc_dir);
  if (!live) return tl::unexpected(live.error());
  return search(proc_dir, fmt::format("task/{}/maps", *live));
}

bool kernel_has_procmap_query() {
  const auto maps = open_at(AT_FDCWD, "/proc/self/maps", O_RDONLY);
  Mapping first;
  return maps && query(maps->get(), 0, first);
}

}  // namespace vitrine::target
