// custom-labels v0 and v1: an array of (key, value) string pairs (abi/custom_labels.hpp).
#pragma once

#include "format/decode.hpp"

namespace vitrine::format {

/// `set` is the slot itself in v0 and the slot's pointer, not null, in v1: both begin with the
/// address and the number of labels.
Result<Decoded> decode_custom_labels(Memory& memory, Address set, const DecodeContext& context);

}  // namespace vitrine::format
