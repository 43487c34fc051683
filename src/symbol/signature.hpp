// Parameters and result of a function, from DWARF.
#pragma once

#include "elf/file.hpp"
#include "symbol/dwarf_info.hpp"
#include "symbol/functions.hpp"

namespace vitrine::symbol {

/// Fills in what DWARF has of the function that begins at `into.address`, if it has it.
void describe_function(DwarfInfo& dwarf, Machine machine, FoundFunction& into);

/// Whether the debug information has a function of this name (a linkage name's qualified form, or a
/// name of C) that is inlined everywhere. Takes time in proportion to all debug information.
bool is_inlined_everywhere(DwarfInfo& dwarf, const std::string& name);

}  // namespace vitrine::symbol
