// Which function an address of a file is in, by its symbol tables.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "elf/file.hpp"

namespace vitrine::elf {

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
