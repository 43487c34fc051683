// The content of a section of a file.
#pragma once

#include <cstddef>
#include <vector>

#include "elf/file.hpp"

namespace vitrine::elf {

/// What could be read of a section.
struct SectionBytes {
  std::vector<std::byte> bytes;
  std::string problem;  ///< why that is not all of it; empty: it is
};

/// Reads a section, unpacked if it is compressed (SHF_COMPRESSED, zlib), up to `most` bytes. What a
/// truncated file still has of it is given, with the problem. Errors: malformed (the file has no
/// content for it: SHT_NOBITS; broken compression), unsupported (another compression).
Result<SectionBytes> read_section(Memory& file, const File& elf, const Section& section,
                                  std::uint64_t most);

}  // namespace vitrine::elf
