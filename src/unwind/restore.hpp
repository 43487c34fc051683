// From a frame to its caller's, by all that a Row says.
#pragma once

#include <tl/expected.hpp>

#include "unwind/frame.hpp"
#include "unwind/position.hpp"
#include "unwind/rule.hpp"

namespace vitrine::unwind {

/// The registers of the caller; those whose value is lost or beyond the copy of the stack are not
/// known. The pc and the stack pointer always are. Errors: outermost (there is no caller),
/// truncated, no_rule (the row needs what is not known).
tl::expected<Position, End> restore(const Row& row, const Position& position, const Stack& stack);

}  // namespace vitrine::unwind
