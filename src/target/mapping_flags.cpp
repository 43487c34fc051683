#include "target/mapping_flags.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "base/limits.hpp"
#include "target/maps.hpp"
#include "target/proc_file.hpp"

namespace vitrine::target {
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

}  // namespace vitrine::target
