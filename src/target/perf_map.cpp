#include "target/perf_map.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/types.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/limits.hpp"
#include "file/file_memory.hpp"
#include "file/regular_file.hpp"
#include "target/proc_file.hpp"

namespace vitrine::target {
namespace {

/// The `n`th number of a field of /proc/PID/status; n = -1: the last.
std::optional<unsigned> number_of(std::string_view status, std::string_view name, int n) {
  auto field = status_field(status, name);
  std::optional<unsigned> found;
  for (int i = 0; field && !field->empty() && (n < 0 || i <= n); ++i) {
    unsigned value = 0;
    const auto [rest, error] = std::from_chars(field->data(), field->data() + field->size(), value);
    if (error != std::errc()) return std::nullopt;
    found = value;
    field->remove_prefix(static_cast<std::size_t>(rest - field->data()));
    field->remove_prefix(std::min(field->find_first_not_of(" \t"), field->size()));
    if (n >= 0 && i < n) found.reset();
  }
  return found;
}

}  // namespace

Result<PerfMapText> read_perf_map(int proc_dir, std::uint64_t from) {
  const auto status = read_file_at(proc_dir, "status", 64U << 10);
  if (!status) return tl::unexpected<Error>(status.error());
  const auto pid = number_of(*status, "NSpid", -1);  // the innermost namespace's
  const auto owner = number_of(*status, "Uid", 3);   // whose files it makes
  if (!pid || !owner) return fail(ErrorCode::not_found, "the process does not say who it is");
  const auto root = open_at(proc_dir, "root", O_PATH);
  if (!root) return tl::unexpected<Error>(root.error());
  auto opened = file::open_owned_below(root->get(), fmt::format("/tmp/perf-{}.map", *pid), *owner);
  if (!opened) return tl::unexpected<Error>(std::move(opened.error()));
  auto memory = file::FileMemory::from(std::move(*opened));
  if (!memory) return tl::unexpected<Error>(std::move(memory.error()));
  const auto size = static_cast<std::uint64_t>((*memory)->identity().size);
  PerfMapText part;
  part.anew = size < from;
  if (part.anew) from = 0;
  part.text.resize(std::min<std::uint64_t>(size - from, limits::perf_map_bytes));
  part.text.resize((*memory)->read_some(
      from, std::as_writable_bytes(std::span(part.text.data(), part.text.size()))));
  return part;
}

Result<std::string> read_kernel_symbols() {
  return read_file_at(AT_FDCWD, "/proc/kallsyms", limits::kernel_symbol_bytes);
}

}  // namespace vitrine::target
