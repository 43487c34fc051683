// Names of files that are written again and again: each with its time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace vitrine::cli {

/// Whether `pattern` has a %t.
bool has_time(std::string_view pattern);

/// `pattern` with %t as the time (Unix, ns) in UTC, 20261121T194500.123Z, which sorts as it goes on,
/// and %% as %.
std::string path_at(std::string_view pattern, std::uint64_t time_ns);

}  // namespace vitrine::cli
