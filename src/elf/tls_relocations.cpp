#include "elf/tls_relocations.hpp"

#include <elf.h>

#include <array>

namespace vitrine::elf {

TlsRelocationTypes tls_relocation_types(std::uint16_t machine) {
  return machine == EM_X86_64
             ? TlsRelocationTypes{R_X86_64_TLSDESC, R_X86_64_DTPMOD64, R_X86_64_TPOFF64}
             : TlsRelocationTypes{R_AARCH64_TLSDESC, R_AARCH64_TLS_DTPMOD, R_AARCH64_TLS_TPREL};
}

Result<std::vector<Relocation>> tls_relocations(Memory& memory, const Image& image,
                                                const Dynamic& dynamic,
                                                const TlsRelocationTypes& types,
                                                const Symbol& symbol) {
  const std::array<std::uint32_t, 3> all{types.descriptor, types.module_id, types.tp_offset};
  auto found = TRY(find_relocations(memory, image, dynamic, all));
  // A reference to a local or hidden copy has no symbol.
  std::erase_if(found, [&](const Relocation& relocation) {
    if (relocation.symbol != 0) return relocation.symbol != symbol.index;
    if (relocation.type != types.module_id)
      return static_cast<std::uint64_t>(relocation.addend) != symbol.value;
    const auto offset = memory.read_value<std::uint64_t>(relocation.where + 8, "a GOT word");
    return !offset || *offset != symbol.value;
  });
  return found;
}

}  // namespace vitrine::elf
