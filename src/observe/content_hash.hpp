// The name of a file by what it holds: `process.executable.build_id.htlhash`.
#pragma once

#include <string>

#include "base/memory.hpp"

namespace vitrine::observe {

/// Lower-case hex of the first 16 bytes of the SHA-256 of: the first 4,096 bytes, the last 4,096,
/// and the size as 8 bytes, big-endian (docs/formats/profiles.md, "Content hash"). Empty: it could
/// not be read.
std::string content_hash(Memory& file, std::uint64_t size);

}  // namespace vitrine::observe
