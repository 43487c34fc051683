// The units of debug information by address, as .debug_aranges lists them: without reading the units.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/memory.hpp"
#include "elf/file.hpp"
#include "symbol/function_symbols.hpp"

namespace vitrine::symbol {

struct ListedUnits {
  std::vector<std::uint64_t> offsets;  ///< of their headers, in .debug_info
  Intervals ranges;  ///< indexes of `offsets`; where units overlap, the first one's
};

/// Of a whole section: DWARF 5, 6.1.2. Ends at the first set that is invalid. `is_code`: whether an address is in code
/// that the linker has kept.
ListedUnits list_units(std::span<const std::byte> section, const elf::Encoding& encoding,
                       const std::function<bool(Address)>& is_code);

}  // namespace vitrine::symbol
