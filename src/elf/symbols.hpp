// Symbols of modules and files: by hash, by .symtab, and functions by address.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "elf/file.hpp"
#include "elf/image.hpp"

namespace vitrine::elf {

// Dynamic symbols of a module, looked up as the dynamic linker does: by hash.

struct Symbol {
  std::uint32_t index = 0;    ///< in its table: what relocations refer to
  std::uint64_t value = 0;    ///< st_value: an address without bias; for TLS an offset in the block
  std::uint64_t size = 0;     ///< st_size
  std::uint8_t type = 0;      ///< STT_*
  std::uint8_t binding = 0;   ///< STB_*
  std::uint16_t section = 0;  ///< st_shndx
  std::uint8_t visibility = STV_DEFAULT;

  [[nodiscard]] bool defined() const { return section != SHN_UNDEF; }
  bool operator==(const Symbol&) const = default;
};

/// What of an Elf64_Sym matters.
Symbol make_symbol(std::uint32_t index, const Elf64_Sym& raw);

/// The definitions a module exports under `names`, in their order; nullopt for one it does not.
/// Absent names cost one word of the Bloom filter each, all read in one batch. Errors: malformed
/// (hash table), not_found (the module has no hash table).
Result<std::vector<std::optional<Symbol>>> find_symbols(Memory& memory, const Dynamic& dynamic,
                                                        std::span<const std::string_view> names);

/// find_symbols of one name.
Result<std::optional<Symbol>> find_symbol(Memory& memory, const Dynamic& dynamic,
                                          std::string_view name);

/// Whether the symbol at `index` (defined or not) has this name.
bool has_name(Memory& memory, const Dynamic& dynamic, std::uint32_t index, std::string_view name);

// .symtab of an ELF file: all a static executable has, when it exports nothing.

/// The definitions a file has under `names`, in their order, global before local ones. `file` is
/// the file's bytes, from address 0. Errors: as read_header; not_found (stripped: no .symtab);
/// malformed; limit (more than limits::symbols, or names beyond limits::symbol_name_table).
Result<std::vector<std::optional<Symbol>>> find_file_symbols(
    Memory& file, std::span<const std::string_view> names);

// Which function an address of a file is in, by its symbol tables.

struct NamedFunction {
  std::string name;   ///< as the table spells it; empty: none
  Address start = 0;  ///< in the file's own address space
};

/// For each address, the innermost function symbol around it; one without a name: none. One
/// pass over .symtab, or .dynsym where there is none, for all of them. What is malformed or beyond
/// limits counts as absent.
std::vector<NamedFunction> functions_around(Memory& file, const File& elf,
                                            std::span<const Address> addresses);

}  // namespace vitrine::elf
