// Separate debug files: what was split off a program when it was installed.
#pragma once

#include <memory>
#include <string>

#include "elf/file.hpp"
#include "file/file_memory.hpp"
#include "symbol/debug_places.hpp"

namespace vitrine::symbol {

struct DebugFile {
  std::unique_ptr<file::FileMemory> memory;
  elf::File elf;
};

/// The debug file of `elf`: by build id below /usr/lib/debug, else by .gnu_debuglink beside it, in
/// .debug, and below /usr/lib/debug. It must have the same build id or, where there is none, the
/// checksum that the link names. Null: there is none. In a worker: files are asked for.
std::unique_ptr<DebugFile> find_debug_file(Memory& file, const elf::File& elf,
                                           const std::string& build_id, const DebugSearch& search);

}  // namespace vitrine::symbol
