// Profiles as files: names with times, and what is written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "profile/encode.hpp"
#include "sandbox/files.hpp"

namespace vitrine::agent {

// Names of files that are written again and again: each with its time.

/// Whether `pattern` has a %t.
bool has_time(std::string_view pattern);

/// `pattern` with %t as the time (Unix, ns) in UTC, 20261121T194500.123Z, which sorts as it goes
/// on, and %% as %.
std::string path_at(std::string_view pattern, std::uint64_t time_ns);

// Where a profile goes.

inline constexpr std::string_view standard_output = "-";

struct ProfileOutput {
  std::string path;  ///< "-": standard output
  profile::Encoding encoding{};
};

/// Of new files: what root may read of the machine is not for everybody.
sandbox::StagedFile::Access access_of_profiles();

/// Writes it whole or not at all. Errors: those of encoding and of writing; interrupted (standard output has no reader
/// any more).
Result<void> write_profile(const profile::Profile& profile, const ProfileOutput& output,
                           const profile::EncodeOptions& options);

}  // namespace vitrine::agent
