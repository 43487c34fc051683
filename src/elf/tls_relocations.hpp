// The relocations through which a module reaches a thread-local variable: they tell its access model
// (docs/formats/tls.md, "Access models").
#pragma once

#include "elf/relocations.hpp"
#include "elf/symbols.hpp"

namespace vitrine::elf {

/// R_* of one machine, in the order in which readers ask them.
struct TlsRelocationTypes {
  std::uint32_t descriptor;  ///< TLSDESC
  std::uint32_t module_id;   ///< GD; the word behind it has the offset
  std::uint32_t tp_offset;   ///< IE
};

/// `machine`: EM_X86_64 or EM_AARCH64.
TlsRelocationTypes tls_relocation_types(std::uint16_t machine);

/// Those of them that lead to the variable `symbol`, which the module itself defines. Errors: as
/// find_relocations.
Result<std::vector<Relocation>> tls_relocations(Memory& memory, const Image& image,
                                                const Dynamic& dynamic,
                                                const TlsRelocationTypes& types,
                                                const Symbol& symbol);

}  // namespace vitrine::elf
