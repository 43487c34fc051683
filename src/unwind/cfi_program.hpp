// The programs of call frame information: instructions that make rows (DWARF 5, 6.4.2).
#pragma once

#include <functional>
#include <optional>

#include "unwind/cfi_section.hpp"
#include "unwind/rule.hpp"

namespace vitrine::unwind {

/// The row of `address`, which is in the entry. nullopt: the program is malformed, or uses what no
/// compiler for this machine does.
std::optional<Row> row_at(const FrameEntry& entry, Address address, Machine machine);

/// The rules of all rows of the entry, each with the addresses that have it, in order: what row_at
/// says of them, compact. Ends where the program makes no sense, and when `take` returns false.
using TakeRule = std::function<bool(Address start, Address end, const Rule& rule)>;
void rules_of(const FrameEntry& entry, Machine machine, const TakeRule& take);

}  // namespace vitrine::unwind
