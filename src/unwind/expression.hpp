// DWARF expressions, as call frame information uses them (DWARF 5, 2.5 and 6.4.2).
#pragma once

#include <tl/expected.hpp>

#include "unwind/frame.hpp"
#include "unwind/position.hpp"

namespace vitrine::unwind {

/// What the operations leave on top of their stack. `first`: what is there before the first of
/// them; null: nothing. Errors: truncated (a word beyond the copy of the stack), no_rule (an
/// operation that CFI has no use for, a register whose value is lost, too many steps).
tl::expected<std::uint64_t, End> evaluate(std::span<const std::byte> operations,
                                          const Position& position, const Stack& stack,
                                          const std::uint64_t* first);

}  // namespace vitrine::unwind
