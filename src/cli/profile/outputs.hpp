// Where a profile goes: files and formats of the command line.
#pragma once

#include <string>
#include <vector>

#include "agent/files.hpp"
#include "base/result.hpp"
#include "profile/encode.hpp"

namespace vitrine::cli {

using agent::has_time;
using agent::path_at;
using agent::ProfileOutput;
using agent::write_profile;

/// Each path with the format at the same place of `formats`, or, where that has no more, by its own
/// ending. A format alone goes to standard output. Errors: usage (no such format, an ending of
/// no format, bytes for a terminal).
Result<std::vector<ProfileOutput>> profile_outputs(const std::vector<std::string>& paths,
                                                   const std::vector<profile::Encoding>& encodings);

/// Of outputs that are written again and again: none replaces an earlier one. Errors: usage.
Result<void> check_repeated(const std::vector<ProfileOutput>& outputs);

/// Whether it can be written, as far as that is known before. Errors: not_found (no such
/// directory), not_permitted, failed.
Result<void> check_writable(const ProfileOutput& output);

}  // namespace vitrine::cli
