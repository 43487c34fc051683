// Reading profiles: files of pprof and of OTLP, vitrine's and those of other tools.
//
// A Profile measures time. What else a file has (bytes, objects) is not read. Sums stay sums: a
// sample of pprof is the sum of several, without the times at which they were taken. The bytes
// are not trusted: each length, count and index is checked, and what the tables hold together is
// bounded (base/limits.hpp).
#pragma once

#include <cstddef>
#include <string_view>

#include "base/result.hpp"
#include "profile/profile.hpp"

namespace vitrine::profile {

/// Takes pprof, compressed or not, or OTLP (ProfilesData), whichever `file` is. Errors: malformed
/// (neither, or broken: what and where), unsupported (it holds no time), limit.
Result<Profile> decode(std::string_view file);

// One each, uncompressed; in the file of its name. `room`: bytes that what is read may take (decoder.hpp).
Result<Profile> decode_pprof(std::string_view message, std::size_t room);
Result<Profile> decode_otlp(std::string_view message, std::size_t room);

// As much as the size of `message` allows.
Result<Profile> decode_pprof(std::string_view message);
Result<Profile> decode_otlp(std::string_view message);

}  // namespace vitrine::profile
