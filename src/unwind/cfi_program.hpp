// The programs of call frame information: instructions that make rows (DWARF 5, 6.4.2).
#pragma once

#include <optional>

#include "unwind/cfi_section.hpp"
#include "unwind/rule.hpp"

namespace vitrine::unwind {

/// The row of `address`, which is in the entry. nullopt: the program is malformed, or uses what no
/// compiler for this machine does.
std::optional<Row> row_at(const FrameEntry& entry, Address address, Machine machine);

}  // namespace vitrine::unwind
