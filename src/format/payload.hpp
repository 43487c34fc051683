// What the two payload decoders of the process context share.
#pragma once

#include <cstddef>
#include <span>

#include "format/process_context.hpp"

namespace vitrine::format {

/// Version 2. Fails as `malformed`.
Result<ProcessContext> decode_protobuf(std::span<const std::byte> payload);

/// Version 1. Fails as `malformed`, or as `limit` when nested too deep.
Result<ProcessContext> decode_msgpack(std::span<const std::byte> payload);

/// Notes, once for each `what`, that a limit cut something.
void note_cut(ProcessContext& context, const char* what, std::string detail);

}  // namespace vitrine::format
