// gzip (RFC 1952), whole buffers at once.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace vitrine {

/// `bytes` as one gzip member. Errors: failed (no memory).
Result<std::string> gzip(std::string_view bytes);

/// What is in one gzip member. Errors: malformed (no gzip, cut off, a wrong checksum, bytes after
/// it), limit (it holds more than `most` bytes).
Result<std::string> gunzip(std::string_view bytes, std::size_t most);

}  // namespace vitrine
