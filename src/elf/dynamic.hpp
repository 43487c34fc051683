// The dynamic section: where a module keeps its symbols and relocations.
#pragma once

#include "elf/image.hpp"

namespace vitrine::elf {

/// Part of a module: checked to lie within what it loads.
struct Table {
  Address address = 0;     ///< 0: the module has none
  std::uint64_t size = 0;  ///< bytes; for a table whose length is not told, to the segment's end

  explicit operator bool() const { return address != 0; }
};

/// Runtime addresses, whether or not the dynamic linker had already added the bias to the entries
/// (glibc does, musl does not).
struct Dynamic {
  Table symbols;      ///< DT_SYMTAB
  Table strings;      ///< DT_STRTAB, DT_STRSZ
  Table gnu_hash;     ///< DT_GNU_HASH
  Table hash;         ///< DT_HASH
  Table rela;         ///< DT_RELA, DT_RELASZ
  Table plt_rela;     ///< DT_JMPREL, DT_PLTRELSZ
  Address debug = 0;  ///< DT_DEBUG: struct r_debug, put there at run time
};

/// Reads PT_DYNAMIC. Errors: not_found (the module has none: static), malformed. A table outside of
/// the module counts as absent.
Result<Dynamic> read_dynamic(Memory& memory, const Image& image);

}  // namespace vitrine::elf
