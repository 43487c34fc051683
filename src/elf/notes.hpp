// Notes of a module: small named records in its PT_NOTE segments.
#pragma once

#include "elf/image.hpp"

namespace vitrine::elf {

struct Note {
  std::string name;  ///< "GNU", "stapsdt", …
  std::uint32_t type = 0;
  Address description = 0;  ///< runtime address
  std::uint32_t size = 0;   ///< of the description, bytes
};

/// All notes, up to the first broken one of each segment.
std::vector<Note> read_notes(Memory& memory, const Image& image);

/// The note of the GNU build id, whose description has 1 to 64 bytes; nullopt when there is none.
std::optional<Note> build_id_note(Memory& memory, const Image& image);

/// The GNU build id; empty when the module has none.
std::vector<std::byte> build_id(Memory& memory, const Image& image);

}  // namespace vitrine::elf
