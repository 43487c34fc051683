#include "observe/made_code.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "file/regular_file.hpp"

namespace vitrine::observe {

std::string MadeCode::refresh(int root, const ProcessFacts& facts) {
  if (facts.inner_pid == 0) return {};
  const std::string path = fmt::format("/tmp/perf-{}.map", facts.inner_pid);
  const auto file = file::open_owned_below(root, path, facts.owner);
  if (!file) {
    if (file.error().code == ErrorCode::not_found) return {};
    return fmt::format("{}: not used: {}", path, file.error().message);
  }
  std::string piece(256 * 1024, '\0');
  while (!map_.full()) {
    const ssize_t got =
        ::pread(file->get(), piece.data(), piece.size(), static_cast<off_t>(map_.taken()));
    if (got <= 0) return {};
    const std::uint64_t before = map_.taken();
    map_.add({piece.data(), static_cast<std::size_t>(got)});
    if (map_.taken() == before) return {};  // its last line is not finished
  }
  return fmt::format("{}: too long: only its first part is used", path);
}

}  // namespace vitrine::observe
