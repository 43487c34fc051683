// Encodes DOF: the same providers give the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "dof/dof.hpp"

namespace vitrine::dof {

/// Encodes one DOF. Record::word, Semaphore::word are written as they are; their `word_offset` are
/// set to where they landed, for the caller's ELF relocations. The version is the object's own.
/// Errors: usage (a name or a type beyond what readers take, base/limits.hpp), limit.
Result<std::vector<std::byte>> write(Object& object);

}  // namespace vitrine::dof
