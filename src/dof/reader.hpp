// Decodes DOF, from any hands (docs/formats/dof.md, "What a reader must check").
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/limits.hpp"
#include "dof/dof.hpp"

namespace vitrine::dof {

struct Objects {
  std::vector<Object> objects;      ///< in the section's order
  std::vector<Problem> problems;    ///< what is no DOF, and where
  std::uint64_t decoded_bytes = 0;  ///< what they take, about
};

/// Decodes the bytes of a `.SUNW_dof` section: one DOF after another, each 8-aligned, zeros
/// between. What is no DOF, or has a header that cannot be trusted, is told and passed over, up to
/// the next 8-aligned beginning of one. What is wrong within a DOF costs as little of it as can be
/// (a record, a provider), and is told in its `problems`. Never more memory than
/// limits::dof_expansion times the input, or `most` bytes.
Objects read(std::span<const std::byte> section, std::uint64_t most = limits::dof_decoded_bytes);

}  // namespace vitrine::dof
