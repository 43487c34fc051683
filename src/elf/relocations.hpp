// Dynamic relocations of a module.
#pragma once

#include <span>

#include "elf/dynamic.hpp"

namespace vitrine::elf {

struct Relocation {
  Address where = 0;         ///< runtime address of the words it fills
  std::uint32_t type = 0;    ///< R_X86_64_*, R_AARCH64_*
  std::uint32_t symbol = 0;  ///< dynamic symbol index; 0: none
  std::int64_t addend = 0;

  bool operator==(const Relocation&) const = default;
};

/// The relocations of the given types, in DT_RELA and DT_JMPREL (ld puts TLS descriptors into
/// either), whose target lies within the module. Errors: malformed (unreadable), limit (more than
/// limits::relocations).
Result<std::vector<Relocation>> find_relocations(Memory& memory, const Image& image,
                                                 const Dynamic& dynamic,
                                                 std::span<const std::uint32_t> types);

}  // namespace vitrine::elf
