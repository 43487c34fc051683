// Reads a file whole into memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
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

// Writes a file whole or not at all.

/// Puts `bytes` into `path` through a temporary file beside it and a rename: a reader, a full disk or
/// a signal never leaves half a file. What holds these bytes already is left alone with its time of
/// change, so that make sees nothing to do; what is replaced keeps its permissions. True: written.
/// Errors: not_found (no such directory), not_permitted, failed.
Result<bool> write_whole(const std::string& path, std::string_view bytes);

}  // namespace vitrine::usdt
