// The relocations of a file, as what they write into a word: those that the dynamic linker applies
// to what is loaded, and those that a linker applies to the sections of a relocatable file.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "elf/file.hpp"

namespace vitrine::elf {

struct AddressRange {
  Address begin = 0, end = 0;
};

/// A word that the dynamic linker writes.
struct DynamicRelocation {
  Address where = 0;
  std::uint32_t type = 0;  ///< R_*; of RELR: the machine's RELATIVE
  /// What it writes, at a load base of 0; nullopt: another file decides, or the type is not known.
  std::optional<std::uint64_t> value;
};

struct DynamicRelocations {
  std::vector<DynamicRelocation> relocations;
  std::vector<std::string> problems;  ///< why these may not be all; each a sentence
};

/// The dynamic relocations (RELA, REL, RELR) of words that begin within `ranges`. By PT_DYNAMIC:
/// section headers are not needed. At most limits::relocations are looked at.
DynamicRelocations dynamic_relocations(Memory& file, const File& elf,
                                       std::span<const AddressRange> ranges);

/// A relocation of a section.
struct SectionRelocation {
  std::uint64_t offset = 0;  ///< of what it changes, in the section
  std::uint32_t type = 0;    ///< R_*
  std::string symbol;        ///< empty: a section's, or none
  std::int64_t addend = 0;   ///< 0 where the word itself has it (REL)
};

/// The relocations of some sections of a relocatable file, by section and offset, as far as they can
/// be read: at most limits::relocations.
std::map<std::size_t, std::vector<SectionRelocation>> section_relocations(
    Memory& file, const File& elf, std::span<const std::size_t> sections);

/// "R_X86_64_PC64": the few types that fill whole words, else "type 99".
std::string relocation_name(std::uint16_t machine, std::uint32_t type);

}  // namespace vitrine::elf
