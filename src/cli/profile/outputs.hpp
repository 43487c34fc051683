// Where a profile goes: file names with times, and formats.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "profile/encode.hpp"

namespace vitrine::cli {

// Names of files that are written again and again: each with its time.

/// Whether `pattern` has a %t.
bool has_time(std::string_view pattern);

/// `pattern` with %t as the time (Unix, ns) in UTC, 20261121T194500.123Z, which sorts as it goes on,
/// and %% as %.
std::string path_at(std::string_view pattern, std::uint64_t time_ns);

// Where a profile goes: files and formats, as --output and --format name them.

struct ProfileOutput {
  std::string path;  ///< "-": standard output
  profile::Encoding encoding{};
};

/// Each path with the format at the same place of `formats`, or, where that has no more, by its own
/// ending. A format alone goes to standard output. Errors: usage (no such format, an ending that
/// says none, bytes for a terminal).
Result<std::vector<ProfileOutput>> profile_outputs(const std::vector<std::string>& paths,
                                                   const std::vector<profile::Encoding>& encodings);

/// Whether it can be written, as far as that is known before. Errors: not_found (no such
/// directory), not_permitted, failed.
Result<void> check_writable(const ProfileOutput& output);

/// Writes it whole or not at all. Errors: those of encoding and of writing.
Result<void> write_profile(const profile::Profile& profile, const ProfileOutput& output,
                           const profile::EncodeOptions& options);

}  // namespace vitrine::cli
