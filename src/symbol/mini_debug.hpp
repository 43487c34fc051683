// MiniDebugInfo: the symbol table that Fedora and others leave in stripped files, as a small ELF
// file packed with xz in a section of its own, .gnu_debugdata.
#pragma once

#include "symbol/function_symbols.hpp"

namespace vitrine::symbol {

/// Its functions. Errors: not_found (the file has none), malformed, limit.
Result<FunctionSymbols> mini_debug_symbols(Memory& file, const elf::File& elf);

}  // namespace vitrine::symbol
