// Finding the mappings that may hold a process context: by PROCMAP_QUERY, or in the text of maps.

#include "target/maps.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "abi/process_context.hpp"
#include "base/limits.hpp"
#include "target/proc_file.hpp"
#include "target/threads.hpp"

namespace vitrine::target {
namespace {

constexpr std::size_t line_max = 32 * 1024;  // a path of 4,095 bytes, each as \ooo, and the fields

/// Takes the text up to `end` off `text`.
std::optional<std::string_view> take(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  if (at == text.npos) return std::nullopt;
  const auto taken = text.substr(0, at);
  text.remove_prefix(at + 1);
  return taken;
}

bool number(std::optional<std::string_view> text, int base, std::uint64_t& into) {
  if (!text) return false;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, into, base);
  return error == std::errc() && stop == end;
}

/// The kernel writes a newline in a path as \012, and nothing else so.
std::string unescaped(std::string_view path) {
  constexpr std::string_view newline = "\\012";
  std::string plain;
  for (std::size_t at; (at = path.find(newline)) != path.npos;) {
    plain.append(path.substr(0, at)).push_back('\n');
    path.remove_prefix(at + newline.size());
  }
  return plain.append(path);
}

}  // namespace

std::optional<Mapping> parse_mapping(std::string_view line) {
  Mapping mapping;
  if (!number(take(line, '-'), 16, mapping.start) || !number(take(line, ' '), 16, mapping.end) ||
      mapping.start >= mapping.end)
    return std::nullopt;
  const auto permissions = take(line, ' ');
  if (!permissions || permissions->size() != 4) return std::nullopt;
  mapping.readable = (*permissions)[0] == 'r';
  mapping.writable = (*permissions)[1] == 'w';
  mapping.executable = (*permissions)[2] == 'x';
  mapping.shared = (*permissions)[3] == 's';
  if (!number(take(line, ' '), 16, mapping.offset)) return std::nullopt;
  std::uint64_t major = 0, minor = 0;
  if (!number(take(line, ':'), 16, major) || !number(take(line, ' '), 16, minor))
    return std::nullopt;
  mapping.device = makedev(static_cast<unsigned>(major), static_cast<unsigned>(minor));
  // The inode ends the line when there is no name; otherwise blanks pad up to the name.
  const std::size_t digits = std::min(line.find(' '), line.size());
  if (!number(line.substr(0, digits), 10, mapping.inode)) return std::nullopt;
  line.remove_prefix(digits);
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  mapping.name = unescaped(line);
  return mapping;
}

bool LineCutter::keep(std::string_view part) {
  if (dropping_ || carry_.size() + part.size() > line_max) {
    dropping_ = true;
    carry_.clear();
    return false;
  }
  carry_.append(part);
  return true;
}

bool may_be_context(const Mapping& mapping) {
  using namespace std::string_view_literals;
  if (mapping.executable || !mapping.readable) return false;
  for (const auto form : {"[anon_shmem:"sv, "[anon:"sv, "/memfd:"sv}) {
    const std::string_view name = mapping.name;
    if (name.substr(0, form.size()) == form &&
        name.substr(form.size()).rfind(abi::process_context::mapping_name, 0) == 0)
      return true;
  }
  return false;
}

namespace {

constexpr std::string_view label = "VmFlags:";
constexpr std::size_t lines_per_mapping = 32;  // some 25 are usual

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> all;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end != 0) all.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return all;
}

}  // namespace

Result<std::vector<std::string>> mapping_flags(int proc_dir, Address start) {
  const auto smaps = TRY(open_at(proc_dir, "smaps", O_RDONLY));
  std::optional<std::vector<std::string>> flags;
  bool seen = false;  // the mapping itself
  LineCutter lines;
  std::size_t count = 0;
  std::string chunk(64 * 1024, '\0');
  while (!flags && count < limits::map_lines * lines_per_mapping) {
    const ssize_t n = ::read(smaps.get(), chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(ErrorCode::failed, fmt::format("smaps: {}", std::strerror(errno)));
    if (n == 0) break;
    lines.feed({chunk.data(), static_cast<std::size_t>(n)}, [&](std::string_view line) {
      ++count;
      if (flags) return;
      if (seen && line.starts_with(label))
        flags = words(line.substr(label.size()));
      else if (const auto mapping = parse_mapping(line))
        seen = mapping->start == start;
    });
  }
  if (flags) return std::move(*flags);
  if (seen) return fail(ErrorCode::unsupported, "this kernel does not report VmFlags");
  return fail(ErrorCode::not_found, fmt::format("no mapping begins at {}", hex(start)));
}

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
