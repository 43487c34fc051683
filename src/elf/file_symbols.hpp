// .symtab of an ELF file: all a static executable has, when it exports nothing.
#pragma once

#include <span>
#include <string_view>

#include "elf/symbols.hpp"

namespace vitrine::elf {

/// The definitions a file has under `names`, in their order, global before local ones. `file` is
/// the file's bytes, from address 0. Errors: as read_header; not_found (stripped: no .symtab);
/// malformed; limit (more than limits::symbols, or names beyond limits::symbol_name_table).
Result<std::vector<std::optional<Symbol>>> find_file_symbols(
    Memory& file, std::span<const std::string_view> names);

}  // namespace vitrine::elf
