// Reading a set of our own writer so that its serial proves it, with no look at the thread.
#pragma once

#include <optional>

#include "format/decode.hpp"

namespace vitrine::observe {

/// Reads the v1 set behind the slot at `slot` in the order that format/serial_set.hpp asks for.
/// nullopt when that proves nothing: a foreign writer's set, one that changed meanwhile, or a block
/// that does not hold all its strings.
std::optional<format::LabelSet> read_by_serial(Memory& memory, Address slot,
                                               const format::DecodeContext& context);

}  // namespace vitrine::observe
