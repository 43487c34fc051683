// The header of a DOF (docs/formats/dof.md, "Header").
#pragma once

#include <cstddef>
#include <span>

#include "abi/dof.h"
#include "base/result.hpp"

namespace vitrine::dof {

/// Whether `bytes` begin as a DOF does.
bool has_magic(std::span<const std::byte> bytes);

/// Reads and checks the header at the start of `bytes` (docs/formats/dof.md,
/// "What a reader must check"), whatever follows it. Its sizes then lie within `bytes`. Errors:
/// malformed, unsupported (big-endian), limit.
Result<vitrine_dof_header> read_header(std::span<const std::byte> bytes);

}  // namespace vitrine::dof
