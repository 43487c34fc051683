#include "symbol/debug_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/limits.hpp"
#include "elf/file.hpp"
#include "elf/notes.hpp"
#include "sandbox/confinement.hpp"
#include "sandbox/files.hpp"

namespace vitrine::symbol {
namespace {

/// Of /proc and the like, whose files are empty by their own account, a worker gets none.
bool is_elf(int descriptor) {
  struct statx status {};
  char magic[4] = {};
  return ::statx(descriptor, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &status) ==
             0 &&
         S_ISREG(status.stx_mode) && status.stx_size >= 64 &&
         ::pread(descriptor, magic, sizeof magic, 0) == sizeof magic &&
         std::memcmp(magic, "\177ELF", sizeof magic) == 0;
}

FileDescriptor open_in(const DebugPlaces& places, std::size_t root, const std::string& path) {
  auto opened = places.roots.empty() ? sandbox::open_regular_at(AT_FDCWD, path)
                                     : sandbox::open_regular_below(places.roots[root], path);
  if (!opened || !is_elf(opened->get())) return {};
  return std::move(*opened);
}

std::size_t root_count(const DebugPlaces& places) {
  return std::max<std::size_t>(places.roots.size(), 1);
}

}  // namespace

DebugSearch DebugPlaces::search() const {
  return {path, static_cast<std::uint32_t>(root_count(*this))};
}

DebugPlaces::Key DebugPlaces::key() const {
  Key key{{}, path};
  for (const int root : roots) key.first.push_back(sandbox::place_identity(root));
  return key;
}

sandbox::Open DebugPlaces::open() const {
  return [this](std::uint32_t root, const std::string& asked) -> FileDescriptor {
    if (asked.empty()) return {};
    std::string whole = asked;
    if (asked[0] != '/') {
      const std::size_t slash = path.rfind('/');
      if (slash == path.npos) return {};
      whole = path.substr(0, slash + 1) + asked;
    }
    if (root < root_count(*this)) return open_in(*this, root, whole);
    if (root != sandbox::any_root) return {};
    for (std::size_t each = 0; each < root_count(*this); ++each)
      if (auto opened = open_in(*this, each, whole)) return opened;
    return {};
  };
}

namespace {

constexpr const char* debug_root = "/usr/lib/debug";

/// .gnu_debuglink: a file name, padded to 4 bytes, and the CRC-32 of that file.
struct Link {
  std::string name;
  std::uint32_t checksum = 0;
};

std::optional<Link> read_link(Memory& file, const elf::File& elf) {
  const elf::Section* section = elf.find(".gnu_debuglink");
  if (section == nullptr) return std::nullopt;
  const auto read = elf::read_section(file, elf, *section, limits::name_bytes);
  if (!read) return std::nullopt;
  const std::string_view text(reinterpret_cast<const char*>(read->bytes.data()),
                              read->bytes.size());
  const std::size_t end = text.find('\0');
  const std::size_t at = align_up(end + 1, 4);
  // A name alone: it leads to the directories that are searched, and nowhere else.
  if (end == text.npos || end == 0 || at + 4 > text.size() ||
      text.substr(0, end).find('/') != text.npos)
    return std::nullopt;
  return Link{std::string(text.substr(0, end)), elf.encoding.u32(read->bytes.data() + at)};
}

/// A sparse file may claim to have exabytes.
constexpr std::int64_t max_to_sum = 4LL << 30;

std::uint32_t checksum_of(Memory& file) {
  std::vector<std::byte> chunk(256 * 1024);
  uLong checksum = ::crc32(0, nullptr, 0);
  for (std::uint64_t at = 0;; at += chunk.size()) {
    const std::size_t got = file.read_some(at, chunk);
    checksum =
        ::crc32(checksum, reinterpret_cast<const Bytef*>(chunk.data()), static_cast<uInt>(got));
    if (got < chunk.size()) return static_cast<std::uint32_t>(checksum);
  }
}

std::vector<std::string> candidates(const std::string& build_id, const std::optional<Link>& link,
                                    const std::string& path) {
  std::vector<std::string> paths;
  if (build_id.size() > 2)
    paths.push_back(fmt::format("{}/.build-id/{}/{}.debug", debug_root, build_id.substr(0, 2),
                                build_id.substr(2)));
  const std::size_t slash = path.rfind('/');
  if (link && path.starts_with('/')) {
    const std::string directory = path.substr(0, slash);
    paths.push_back(fmt::format("{}/{}", directory, link->name));
    paths.push_back(fmt::format("{}/.debug/{}", directory, link->name));
    paths.push_back(fmt::format("{}{}/{}", debug_root, directory, link->name));
  }
  return paths;
}

}  // namespace

std::unique_ptr<DebugFile> find_debug_file(Memory& file, const elf::File& elf,
                                           const std::string& build_id, const DebugSearch& search) {
  const auto link = read_link(file, elf);
  const auto paths = candidates(build_id, link, search.path);
  for (std::uint32_t root = 0; root < search.roots; ++root) {
    for (const std::string& path : paths) {
      auto opened = sandbox::FileMemory::from(sandbox::ask_for_file(root, path));
      if (!opened) continue;
      auto debug = elf::read_file(**opened);
      if (!debug || debug->machine != elf.machine || debug->encoding != elf.encoding) continue;
      const std::string its_id = elf::hex_build_id(**opened, *debug);
      const bool same = build_id.empty() || its_id.empty()
                            ? link && (*opened)->identity().size <= max_to_sum &&
                                  checksum_of(**opened) == link->checksum
                            : its_id == build_id;
      if (same)
        return std::make_unique<DebugFile>(DebugFile{std::move(*opened), std::move(*debug)});
    }
  }
  return nullptr;
}

}  // namespace vitrine::symbol
