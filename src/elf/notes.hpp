// Notes of an ELF file or module, and its build id.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/text.hpp"
#include "elf/file.hpp"
#include "elf/image.hpp"

namespace vitrine::elf {

// Notes: small named records, in the PT_NOTE segments of modules and the SHT_NOTE sections of files.

struct Note {
  std::string name;  ///< "GNU", "stapsdt", …
  std::uint32_t type = 0;
  Address description = 0;  ///< runtime address
  std::uint32_t size = 0;   ///< of the description, bytes
};

/// A note among bytes; `name` lives as long as they do.
struct NoteView {
  std::string_view name;
  std::uint32_t type = 0;
  std::size_t description = 0;  ///< where it begins
  std::uint32_t size = 0;       ///< of the description, bytes
};

/// The notes that follow each other in `bytes`, up to the first broken one. `alignment`: of the
/// segment or section; 8 is taken as such, all else as 4.
std::vector<NoteView> walk_notes(std::span<const std::byte> bytes, const Encoding& encoding,
                                 std::uint64_t alignment);

/// All notes, up to the first broken one of each segment.
std::vector<Note> read_notes(Memory& memory, const Image& image);

/// The note of the GNU build id, whose description has 1 to 64 bytes; nullopt when there is none.
std::optional<Note> build_id_note(Memory& memory, const Image& image);

/// The GNU build id among notes that follow each other, those of a kernel for one
/// (/sys/kernel/notes); empty: none.
std::vector<std::byte> build_id(std::span<const std::byte> notes, const Encoding& encoding,
                                std::uint64_t alignment);

/// The same of a file, from its sections or, where it has none, its segments.
std::vector<std::byte> build_id(Memory& file, const File& elf);

// Build ids as text.

/// The GNU build id of a file in lower-case hex; empty when it has none.
inline std::string hex_build_id(Memory& file, const File& elf) {
  return hex_text(build_id(file, elf));
}

}  // namespace vitrine::elf
