// Durations as users write them: "500ms", "2s", "1m".
#pragma once

#include <chrono>
#include <string_view>

#include "base/result.hpp"

namespace vitrine::cli {

/// Parses a whole number with a unit of ms, s, m or h. Fails as `usage`, naming what was given.
Result<std::chrono::milliseconds> parse_duration(std::string_view text);

/// The same, but a bare number counts milliseconds (for --watch=MS).
Result<std::chrono::milliseconds> parse_interval(std::string_view text);

}  // namespace vitrine::cli
