#include "target/mapped_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "base/limits.hpp"
#include "sandbox/files.hpp"
#include "target/maps.hpp"
#include "target/proc_file.hpp"
#include "target/threads.hpp"

namespace vitrine::target {
namespace {

Result<std::vector<Mapping>> executable_by_text(int proc_dir, const std::string& path) {
  std::vector<Mapping> mappings;
  LineCutter lines;
  std::size_t count = 0;
  TRY(read_blocking_at(proc_dir, path, [&](std::string_view piece) {
    lines.feed(piece, [&](std::string_view line) {
      if (++count > limits::map_lines) return;
      if (auto mapping = parse_mapping(line); mapping && mapping->executable)
        mappings.push_back(std::move(*mapping));
    });
    return count <= limits::map_lines;
  }));
  if (count == 0) return no_memory(path);
  return mappings;
}

Result<std::vector<Mapping>> collect(int proc_dir, const std::string& path) {
  std::vector<Mapping> mappings;
  const auto all = each_mapping(proc_dir, path, QueryFilter::executable, [&](Mapping&& mapping) {
    mappings.push_back(std::move(mapping));
    return true;
  });
  if (all) return mappings;
  if (all.error().code == ErrorCode::unsupported) return executable_by_text(proc_dir, path);
  return tl::unexpected(all.error());
}

/// How the kernel names an open file in maps: by its inode's file system. vitrine's own mapping of it
/// shows that, without a byte of it being read.
std::optional<std::pair<std::uint64_t, std::uint64_t>> as_in_maps(int fd) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const at = ::mmap(nullptr, page, PROT_READ, MAP_PRIVATE, fd, 0);
  if (at == MAP_FAILED) return std::nullopt;
  const auto address = reinterpret_cast<Address>(at);
  std::optional<std::pair<std::uint64_t, std::uint64_t>> found;
  if (const auto maps = open_at(AT_FDCWD, "/proc/self/maps", O_RDONLY)) {
    const auto take = [&](const Mapping& mapping) {
      if (mapping.start <= address && address < mapping.end)
        found = std::pair(mapping.device, mapping.inode);
    };
    ProcmapQuery query;
    char name[mapping_name_bytes];
    if (query_mapping(maps->get(), address, QueryFilter::readable, query, name) == 0) {
      take(mapping_of(query, {}));
    } else {
      LineCutter lines;
      std::string chunk(64 * 1024, '\0');
      for (ssize_t n; (n = ::read(maps->get(), chunk.data(), chunk.size())) > 0 && !found;)
        lines.feed({chunk.data(), static_cast<std::size_t>(n)}, [&](std::string_view line) {
          if (const auto parsed = parse_mapping(line)) take(*parsed);
        });
    }
  }
  ::munmap(at, page);
  return found;
}

/// What was opened decides, as the process may map another file meanwhile, and other files have the
/// same inode number. On btrfs and overlayfs stat(2) reports another device than maps does: there,
/// vitrine's mapping of the file is compared.
bool is_mapped_file(const sandbox::OpenedFile& opened, const MappedFile& file) {
  const bool is_copy = static_cast<bool>(opened.original);
  const auto place = sandbox::place_identity(is_copy ? opened.original.get() : opened.get());
  if (place.device == file.device && place.inode == file.inode) return true;
  return !is_copy && as_in_maps(opened.get()) == std::pair(file.device, file.inode);
}

}  // namespace

Result<std::vector<Mapping>> executable_mappings(int proc_dir) {
  auto mappings = collect(proc_dir, "maps");
  if (mappings || mappings.error().code != ErrorCode::not_found) return mappings;
  // The leader may have exited: its maps are empty, those of its threads are not.
  return by_live_thread(proc_dir,
                        [&](const std::string& task) { return collect(proc_dir, task + "/maps"); });
}

std::vector<MappedFile> files_of(const std::vector<Mapping>& mappings) {
  std::vector<MappedFile> files;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> positions;
  for (const Mapping& mapping : mappings) {
    if (mapping.inode == 0) continue;
    const auto [known, is_new] =
        positions.emplace(std::pair(mapping.device, mapping.inode), files.size());
    if (is_new) files.push_back({mapping.device, mapping.inode, mapping.name, {}});
    files[known->second].parts.push_back(mapping);
  }
  return files;
}

Result<std::vector<MappedFile>> executable_files(int proc_dir) {
  return executable_mappings(proc_dir).map(files_of);
}

namespace {

std::string link_of(const Mapping& part) {
  return fmt::format("map_files/{:x}-{:x}", part.start, part.end);
}

/// An error of a link below /proc, as an error of the file that it leads to.
tl::unexpected<Error> with_path(const std::string& path, const std::string& link, Error error) {
  if (const auto at = error.message.find(link); at != error.message.npos)
    error.message.replace(at, link.size(), path);
  return tl::unexpected(std::move(error));
}

}  // namespace

Result<sandbox::OpenedFile> open_mapped(int proc_dir, const MappedFile& file) {
  // The kernel's own link to the mapped file; it wants CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE.
  for (const Mapping& part : file.parts) {
    const std::string link = link_of(part);
    auto opened = sandbox::open_regular_link(proc_dir, link);
    if (opened) {
      if (is_mapped_file(*opened, file)) return opened;
      continue;  // another file is mapped there by now
    }
    // Another way to it leads to the same file system.
    if (opened.error().code == ErrorCode::limit) return with_path(file.path, link, opened.error());
    if (opened.error().code == ErrorCode::unsupported) return opened;
    if (opened.error().code == ErrorCode::not_permitted) break;
  }
  // Else by what else leads there: the link to the executable, and its path in the process's root.
  // A leader that has exited has neither, its threads do.
  auto opened = TRY(by_live_thread(proc_dir, [&](const std::string& task) {
    auto executable = sandbox::open_regular_at(proc_dir, task + "/exe");
    if (executable && is_mapped_file(*executable, file)) return executable;
    const std::string link = task + "/root";
    const auto root = open_at(proc_dir, link, O_PATH);
    if (!root) return Result<sandbox::OpenedFile>(with_path(file.path, link, root.error()));
    return sandbox::open_regular_below(root->get(), file.path);
  }));
  if (is_mapped_file(opened, file)) return opened;
  return fail(ErrorCode::not_found, fmt::format("{} is not the mapped file any more", file.path),
              "CAP_CHECKPOINT_RESTORE lets vitrine open replaced and deleted files");
}

std::vector<Result<sandbox::OpenedFile>> open_mapped_files(int proc_dir,
                                                           std::span<const MappedFile> files) {
  std::vector<std::string> links;
  for (const MappedFile& file : files) links.push_back(link_of(file.parts.front()));
  auto opened = sandbox::open_regular_links(proc_dir, links);
  // What is not there in this way may be in another.
  for (std::size_t i = 0; i < files.size(); ++i)
    if (!opened[i] || !is_mapped_file(*opened[i], files[i]))
      opened[i] = open_mapped(proc_dir, files[i]);
  return opened;
}

Result<sandbox::OpenedFile> open_mapped_below(int root, const MappedFile& file) {
  auto opened = TRY(sandbox::open_regular_below(root, file.path));
  if (is_mapped_file(opened, file)) return opened;
  return fail(ErrorCode::not_found, fmt::format("{} is not the mapped file any more", file.path));
}

std::string without_deleted(const std::string& path, int descriptor, int root) {
  std::string without = without_deleted(path);
  if (without == path || root < 0) return without;
  struct statx about {};
  const bool is_known =
      ::statx(descriptor, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_NLINK, &about) == 0 &&
      (about.stx_mask & STATX_NLINK) != 0;
  if (is_known && about.stx_nlink == 0) return without;
  // It has this name, or another one.
  const auto named = sandbox::open_regular_below(root, path);
  if (!named) return without;
  auto one = sandbox::place_identity(named->original ? named->original.get() : named->get());
  auto other = sandbox::place_identity(descriptor);
  one.mount = other.mount = 0;
  return one == other ? path : without;
}

std::string executable_path(int proc_dir, const std::string& link) {
  std::string path(PATH_MAX, '\0');
  const ssize_t length = ::readlinkat(proc_dir, link.c_str(), path.data(), path.size());
  path.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  if (without_deleted(path) == path) return path;
  const auto file = open_at(proc_dir, link, O_PATH);
  const auto root = open_at(proc_dir, "root", O_PATH | O_DIRECTORY);
  return without_deleted(path, file ? file->get() : -1, file && root ? root->get() : -1);
}

namespace {

/// Of a perf map's text: so much of each distance is compared.
constexpr std::size_t compared_bytes = 4096, compared_distance = 64 * 1024;

std::size_t hash_of(std::string_view text) {
  return std::hash<std::string_view>()(text);
}

}  // namespace

void KnownPerfMap::add(std::string_view text) {
  if (text.empty()) return;
  const auto part = [&](std::size_t at, std::size_t most) {
    const std::string_view its = text.substr(at, most);
    return Part{bytes_ + at, its.size(), hash_of(its)};
  };
  // Each distance's part begins in the text that has its beginning.
  for (std::size_t at = (compared_distance - bytes_ % compared_distance) % compared_distance;
       at < text.size(); at += compared_distance)
    parts_.push_back(part(at, compared_bytes));
  last_ = part(text.size() - std::min(text.size(), compared_bytes), compared_bytes);
  bytes_ += text.size();
}

/// Whether a file, which is long enough, has the text that was read.
bool KnownPerfMap::is_of(Memory& file) const {
  std::string text(compared_bytes, '\0');
  const auto is_there = [&](const Part& part) {
    const std::size_t got =
        file.read_some(part.offset, std::as_writable_bytes(std::span(text.data(), part.bytes)));
    return got == part.bytes && hash_of({text.data(), got}) == part.hash;
  };
  return is_there(last_) && std::ranges::all_of(parts_, is_there);
}

Result<PerfMapText> read_perf_map(int root, pid_t pid, uid_t owner, KnownPerfMap& known,
                                  std::size_t max_bytes) {
  auto opened = TRY(sandbox::open_owned_below(root, fmt::format("/tmp/perf-{}.map", pid), owner));
  auto memory = TRY(sandbox::FileMemory::from(std::move(opened)));
  const auto size = static_cast<std::uint64_t>(memory->identity().size);
  const auto file = sandbox::place_identity(memory->original());
  const bool is_overwritten = memory->identity().size == known.seen_.size &&
                              memory->identity().changed_ns != known.seen_.changed_ns;
  PerfMapText part;
  part.anew = known.bytes() != 0 && (file != known.file_ || is_overwritten ||
                                     size < known.bytes() || !known.is_of(*memory));
  if (part.anew) known = {};
  known.file_ = file;
  known.seen_ = memory->identity();
  part.text.resize(std::min<std::uint64_t>(size - known.bytes(), max_bytes));
  part.text.resize(memory->read_some(
      known.bytes(), std::as_writable_bytes(std::span(part.text.data(), part.text.size()))));
  return part;
}

}  // namespace vitrine::target
