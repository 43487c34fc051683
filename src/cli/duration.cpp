#include "cli/duration.hpp"

#include <fmt/format.h>

#include <charconv>

namespace vitrine::cli {
namespace {

constexpr std::int64_t longest = 366LL * 24 * 3600 * 1000;  // a year, in milliseconds

Result<std::chrono::milliseconds> parse(std::string_view text, std::string_view default_unit) {
  std::int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  if (unit.empty()) unit = default_unit;
  const std::int64_t factor = unit == "ms"  ? 1
                              : unit == "s" ? 1000
                              : unit == "m" ? 60 * 1000
                              : unit == "h" ? 3600 * 1000
                                            : 0;
  if (error != std::errc{} || number < 0 || factor == 0)
    return fail(ErrorCode::usage, fmt::format("invalid duration '{}'", text),
                "write a whole number and a unit: 500ms, 2s, 1m");
  if (number > longest / factor)
    return fail(ErrorCode::usage, fmt::format("duration '{}' is longer than a year", text));
  return std::chrono::milliseconds(number * factor);
}

}  // namespace

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  return parse(text, "");
}

Result<std::chrono::milliseconds> parse_interval(std::string_view text) {
  auto interval = parse(text, "ms");
  if (interval && interval->count() == 0)
    return fail(ErrorCode::usage, "invalid interval: 0",
                "give at least 1ms, for example --watch=500ms");
  return interval;
}

}  // namespace vitrine::cli
