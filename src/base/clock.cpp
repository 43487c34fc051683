#include "base/clock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_descriptor.hpp"

namespace vitrine {
namespace {

/// Of the initial time namespace, in every kernel (PROC_TIME_INIT_INO in linux/proc_ns.h).
constexpr std::string_view initial_namespace = "time:[4026531834]";
constexpr std::size_t table_bytes = 256;

std::string_view take_word(std::string_view& line) {
  const std::size_t begin = line.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  const std::size_t end = std::min(line.find(' ', begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

std::optional<std::int64_t> number(std::string_view word) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

/// "monotonic  -1000  0": seconds, and nanoseconds, which are never negative.
std::optional<std::int64_t> offset_in(std::string_view line) {
  const auto seconds = number(take_word(line));
  const auto nanoseconds = number(take_word(line));
  constexpr std::int64_t second_ns = 1'000'000'000;
  constexpr std::int64_t most = INT64_MAX / second_ns - 1;
  if (!seconds || !nanoseconds || *seconds > most || *seconds < -most || *nanoseconds < 0 ||
      *nanoseconds >= second_ns)
    return std::nullopt;
  return *seconds * second_ns + *nanoseconds;
}

}  // namespace

ClockOffsets clock_offsets_of(int proc_dir) {
  ClockOffsets offsets;
  // The table is that of the children to come, which may be in another one.
  std::array<char, 64> own{};
  std::array<char, 64> of_children{};
  const auto link = [&](const char* path, std::array<char, 64>& into) {
    const ssize_t length = ::readlinkat(proc_dir, path, into.data(), into.size());
    return std::string_view(into.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  };
  const std::string_view its = link("ns/time", own);
  if (its.empty() || its == initial_namespace || its != link("ns/time_for_children", of_children))
    return offsets;
  const FileDescriptor file(::openat(proc_dir, "timens_offsets", O_RDONLY | O_CLOEXEC));
  if (!file) return offsets;
  const auto table = read_all(file.get(), table_bytes);
  if (!table) return offsets;
  for (std::string_view rest = *table; !rest.empty();) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::string_view clock = take_word(line);
    const auto offset = offset_in(line);
    if (!offset) continue;
    if (clock == "monotonic") offsets.monotonic_ns = *offset;
    if (clock == "boottime") offsets.boottime_ns = *offset;
  }
  return offsets;
}

const ClockOffsets& own_clock_offsets() {
  static const ClockOffsets offsets = [] {
    const FileDescriptor self(::open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC));
    return self ? clock_offsets_of(self.get()) : ClockOffsets{};
  }();
  return offsets;
}

}  // namespace vitrine
