// Adds symbols to an object without moving anything that was there (docs/formats/object-step.md,
// "Aliases").
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "usdt/containing_function.hpp"
#include "usdt/object_file.hpp"

namespace vitrine::usdt {

struct NewSymbol {
  std::string name;
  Place place;
  unsigned char binding;  ///< STB_GLOBAL, STB_WEAK
};

/// Puts a longer symbol table, with its strings and its table of wide section indices, at the end of
/// `bytes` (a copy of the object's own) and points the section headers to them; the old ones stay
/// behind as unused bytes. The symbols are hidden, without a type or a size, so that
/// disassemblers and profilers go on showing the functions' own names. Errors: limit, unsupported.
Result<void> append_symbols(std::vector<std::byte>& bytes, const ObjectFile& object,
                            std::span<const NewSymbol> symbols);

}  // namespace vitrine::usdt
