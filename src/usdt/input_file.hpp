// Reads a file whole into memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/file_descriptor.hpp"
#include "base/result.hpp"

namespace vitrine::usdt {

struct InputFile {
  FileDescriptor descriptor;
  std::uint64_t size = 0;  ///< bytes, when it was opened
};

/// Errors: not_found, not_permitted, usage (no regular file: a directory, a pipe), limit
/// (two gigabytes), failed.
Result<InputFile> open_input(const std::string& path);

/// From its start; shorter, if it has become shorter. Messages speak of "it". Errors: failed.
Result<std::vector<std::byte>> read_whole(const InputFile& file);

}  // namespace vitrine::usdt
