// Which function an address of a file is in, by its symbol tables.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "elf/file.hpp"

namespace vitrine::elf {

/// For each address, the name of the innermost function symbol around it as the table spells it;
/// empty: none. One pass over .symtab, or .dynsym where there is none, for all of them. What is
/// malformed or beyond limits counts as absent.
std::vector<std::string> functions_around(Memory& file, const File& elf,
                                          std::span<const Address> addresses);

}  // namespace vitrine::elf
