#include "target/perf_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/limits.hpp"
#include "file/file_memory.hpp"
#include "file/regular_file.hpp"

namespace vitrine::target {

Result<PerfMapText> read_perf_map(int root, pid_t pid, uid_t owner, std::uint64_t from) {
  auto opened = TRY(file::open_owned_below(root, fmt::format("/tmp/perf-{}.map", pid), owner));
  auto memory = TRY(file::FileMemory::from(std::move(opened)));
  const auto size = static_cast<std::uint64_t>(memory->identity().size);
  PerfMapText part;
  part.anew = size < from;
  if (part.anew) from = 0;
  part.text.resize(std::min<std::uint64_t>(size - from, limits::perf_map_bytes));
  part.text.resize(memory->read_some(
      from, std::as_writable_bytes(std::span(part.text.data(), part.text.size()))));
  return part;
}

}  // namespace vitrine::target
