// Where a profile goes: files and formats, as --output and --format name them.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "profile/encode.hpp"

namespace vitrine::cli {

struct ProfileOutput {
  std::string path;  ///< "-": standard output
  profile::Encoding encoding{};
};

/// Each path with the format at the same place of `formats`, or, where that has no more, by its own
/// ending. A format alone goes to standard output. Errors: usage (no such format, an ending that
/// tells none, bytes for a terminal).
Result<std::vector<ProfileOutput>> profile_outputs(const std::vector<std::string>& paths,
                                                   const std::vector<std::string>& formats);

/// Whether it can be written, as far as can be told before. Errors: not_found (no such directory),
/// not_permitted, failed.
Result<void> check_writable(const ProfileOutput& output);

/// Whether it is, or will be, a file of our own in a directory of our own: writing that takes no
/// capability. So does standard output.
bool is_ours(const std::string& path);

/// Writes it whole or not at all. Errors: those of encoding and of writing.
Result<void> write_profile(const profile::Profile& profile, const ProfileOutput& output,
                           const profile::EncodeOptions& options);

}  // namespace vitrine::cli
