// Notes of static probes: the bytes of a `.note.stapsdt` section (docs/formats/sdt.md, "Note"), of
// any class and byte order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/memory.hpp"
#include "elf/encoding.hpp"
#include "probe/note_reader.hpp"

namespace vitrine::probe {

/// One note as it is written. Addresses are the linker's: not adjusted, and not checked at all
/// (site_address.hpp does). The strings are any bytes but NUL, and live as long as the section's.
struct StapsdtNote {
  std::uint64_t offset = 0;  ///< of the note in its section
  Address address = 0;       ///< of the probe's instruction
  Address base = 0;          ///< where the linker put `.stapsdt.base`; 0: it was thrown away
  Address semaphore = 0;     ///< 0: none
  std::string_view provider;
  std::string_view name;
  std::string_view arguments;  ///< all of them: split_arguments() knows where each ends
};

struct StapsdtNotes {
  std::vector<StapsdtNote> notes;  ///< in the section's order
  NoteProblems problems;
};

/// Decodes a section of notes. Notes of other vendors and of older versions are passed over. What
/// cannot be decoded becomes a problem; the notes after it are found again where a size lied.
StapsdtNotes decode_stapsdt_notes(std::span<const std::byte> section, elf::Encoding encoding);

}  // namespace vitrine::probe
