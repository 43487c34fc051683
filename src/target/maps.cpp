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
#include <functional>
#include <optional>

#include "abi/process_context.hpp"
#include "base/limits.hpp"
#include "target/memory_reader.hpp"
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
  std::optional<std::vector<std::string>> flags;
  bool seen = false;  // the mapping itself
  LineCutter lines;
  std::size_t count = 0;
  TRY(read_blocking_at(proc_dir, "smaps", [&](std::string_view piece) {
    lines.feed(piece, [&](std::string_view line) {
      ++count;
      if (flags) return;
      if (seen && line.starts_with(label))
        flags = words(line.substr(label.size()));
      else if (const auto mapping = parse_mapping(line))
        seen = mapping->start == start;
    });
    return !flags && count < limits::map_lines * lines_per_mapping;
  }));
  if (flags) return std::move(*flags);
  if (seen) return fail(ErrorCode::unsupported, "this kernel does not report VmFlags");
  return fail(ErrorCode::not_found, fmt::format("no mapping begins at {}", hex(start)));
}

namespace {

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

int query_mapping(int maps, Address address, QueryFilter filter, ProcmapQuery& found, char* name) {
  found = {};
  found.flags = covering_or_next |
                (filter == QueryFilter::readable ? file_backed | vma_readable : +vma_executable);
  found.address = address;
  found.name_size = mapping_name_bytes;
  found.name = reinterpret_cast<std::uintptr_t>(name);
  if (ioctl(maps, procmap_query, &found) == 0) return 0;
  if (errno != ENAMETOOLONG) return errno;
  // A path longer than any that can be opened: only where the mapping ends is of interest.
  found.size = sizeof found;
  found.name_size = 0;
  found.name = 0;
  return ioctl(maps, procmap_query, &found) == 0 ? 0 : errno;
}

Mapping mapping_of(const ProcmapQuery& found, std::string_view name) {
  Mapping mapping;
  mapping.start = found.start;
  mapping.end = found.end;
  mapping.readable = (found.permissions & vma_readable) != 0;
  mapping.writable = (found.permissions & vma_writable) != 0;
  mapping.executable = (found.permissions & vma_executable) != 0;
  mapping.shared = (found.permissions & vma_shared) != 0;
  mapping.offset = found.offset;
  mapping.inode = found.inode;
  mapping.device = makedev(found.device_major, found.device_minor);
  mapping.name = name;
  return mapping;
}

tl::unexpected<Error> no_memory(const std::string& path) {
  return fail(ErrorCode::not_found, fmt::format("{}: the process has ended", path));
}

Result<bool> each_mapping(int proc_dir, const std::string& path, QueryFilter filter,
                          const std::function<bool(Mapping&&)>& each) {
  MemoryReader::ProcRequest request{proc_dir, path.c_str(),
                                    filter == QueryFilter::readable
                                        ? SharedBuffer::Proc::readable_mappings
                                        : SharedBuffer::Proc::executable_mappings,
                                    0};
  const MemoryReader::FileEnd end(MemoryReader::of_this_thread());
  for (std::size_t count = 0;;) {
    const auto response = ask_proc(request);
    if (response.error == ENOTTY || response.error == EINVAL)
      return fail(ErrorCode::unsupported, fmt::format("{}: {}", path, std::strerror(ENOTTY)));
    if (response.error == ESRCH) return no_memory(path);
    if (response.stalled || response.error != 0) return proc_error(path, response);
    auto bytes = response.bytes;
    while (bytes.size() >= sizeof(ProcmapQuery)) {
      ProcmapQuery found;
      std::memcpy(&found, bytes.data(), sizeof found);
      bytes = bytes.subspan(sizeof found);
      const std::size_t size = std::min<std::size_t>(found.name_size, bytes.size());
      const std::string_view name(reinterpret_cast<const char*>(bytes.data()), size);
      if (count++ == limits::map_lines) return true;
      if (!each(mapping_of(found, name))) return false;
      bytes = bytes.subspan(size);
      request.from = found.end;
    }
    if (!response.more) return false;
    request.directory = -1;
  }
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

/// Asks mapping by mapping. Errors: as each_mapping.
Result<ContextMappings> contexts_by_query(int proc_dir, const std::string& path) {
  ContextMappings found;
  const bool more = TRY(each_mapping(proc_dir, path, QueryFilter::readable, [&](Mapping&& mapping) {
    return !may_be_context(mapping) || add(found, std::move(mapping));
  }));
  found.truncated = found.truncated || more;
  return found;
}

/// Reads the text. Only lines that name a context are parsed. Errors: as read_blocking_at.
Result<ContextMappings> contexts_by_text(int proc_dir, const std::string& path) {
  ContextMappings found;
  LineCutter lines;
  std::size_t count = 0;
  bool full = false;
  TRY(read_blocking_at(proc_dir, path, [&](std::string_view piece) {
    lines.feed(piece, [&](std::string_view line) {
      if (++count > limits::map_lines) full = found.truncated = true;
      if (full || line.find(abi::process_context::mapping_name) == line.npos) return;
      if (auto mapping = parse_mapping(line); mapping && may_be_context(*mapping))
        full = !add(found, std::move(*mapping));
    });
    return !full;
  }));
  if (count == 0) return no_memory(path);
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
  auto found = contexts_by_query(proc_dir, path);
  const bool unknown = !found && found.error().code == ErrorCode::unsupported;
  if (unknown || (found && found->mappings.empty() && anonymous_names()))
    found = contexts_by_text(proc_dir, path);
  return found;
}

}  // namespace

Result<ContextMappings> context_mappings(int proc_dir) {
  auto found = search(proc_dir, "maps");
  if (found || found.error().code != ErrorCode::not_found) return found;
  // The leader may have exited: its maps are empty, those of its threads are not.
  return by_live_thread(proc_dir,
                        [&](const std::string& task) { return search(proc_dir, task + "/maps"); });
}

Result<bool> is_writable_at(int proc_dir, Address address) {
  bool writable = false;
  const auto look = [&](const Mapping& mapping) {  // whether to look on
    if (mapping.end <= address) return true;
    writable = mapping.start <= address && mapping.writable;
    return false;
  };
  const auto asked = each_mapping(proc_dir, "maps", QueryFilter::readable, look);
  if (asked) return writable;
  if (asked.error().code != ErrorCode::unsupported) return tl::unexpected(asked.error());
  LineCutter lines;
  std::size_t count = 0;
  bool more = true;
  TRY(read_blocking_at(proc_dir, "maps", [&](std::string_view piece) {
    lines.feed(piece, [&](std::string_view line) {
      const auto mapping =
          more && ++count <= limits::map_lines ? parse_mapping(line) : std::nullopt;
      if (mapping) more = look(*mapping);
    });
    return more && count <= limits::map_lines;
  }));
  if (count == 0) return no_memory("maps");
  return writable;
}

bool kernel_has_procmap_query() {
  const auto maps = open_at(AT_FDCWD, "/proc/self/maps", O_RDONLY);
  ProcmapQuery first;
  char name[mapping_name_bytes];
  return maps && query_mapping(maps->get(), 0, QueryFilter::readable, first, name) == 0;
}

}  // namespace vitrine::target
