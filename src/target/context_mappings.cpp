// Finding the mappings that may hold a process context: by PROCMAP_QUERY, or in the text of maps.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "abi/process_context.hpp"
#include "base/limits.hpp"
#include "target/map_query.hpp"
#include "target/maps.hpp"
#include "target/proc_file.hpp"
#include "target/threads.hpp"

namespace vitrine::target {
namespace {

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
    if (!query_mapping(maps, address, QueryFilter::readable, mapping)) {
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
  const auto maps = TRY(open_at(proc_dir, path, O_RDONLY));
  auto found = by_query(maps.get());
  const bool unknown = !found && (found.error() == ENOTTY || found.error() == EINVAL);
  if (unknown || (found && found->mappings.empty() && anonymous_names()))
    found = by_text(maps.get());
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
  const auto live = TRY(live_thread(proc_dir));
  return search(proc_dir, fmt::format("task/{}/maps", live));
}

bool kernel_has_procmap_query() {
  const auto maps = open_at(AT_FDCWD, "/proc/self/maps", O_RDONLY);
  Mapping first;
  return maps && query_mapping(maps->get(), 0, QueryFilter::readable, first);
}

}  // namespace vitrine::target
