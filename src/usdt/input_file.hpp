// Reads a file whole into memory.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace vitrine::usdt {

/// Errors: not_found, not_permitted, usage (no regular file: a directory, a pipe), limit
/// (two gigabytes), failed.
Result<std::vector<std::byte>> read_whole(const std::string& path);

}  // namespace vitrine::usdt
