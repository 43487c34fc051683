// Reading a DOF: providers, records, and counters of observers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/limits.hpp"
#include "dof/dof.hpp"
#include "dof/sections.hpp"

namespace vitrine::dof {

// A provider of a DOF, with its records (docs/formats/dof.md, "Providers and probes").

/// What reading a provider needs to know of its DOF.
struct ProviderSource {
  const Sections& sections;
  const Relocations& relocations;
  std::uint8_t version;  ///< of the DOF
  Budget& budget;
  Problems& problems;
};

/// Reads the provider in section `index`; a record that is invalid is reported and left out.
/// Errors: malformed (nothing of it can be used).
Result<Provider> read_provider(const ProviderSource& source, std::uint32_t index);

/// The provider's own record. Errors: malformed.
Result<vitrine_dof_provider> read_provider_record(const Sections& sections, std::uint8_t version,
                                                  std::uint32_t index);

// The counters of observers that vitrine's object step lists (abi/dof.h,
// VITRINE_DOF_SECTION_SEMAPHORES).

/// Adds them to their providers. `provider_at`: which of `object.providers` section N became.
void read_semaphores(const Sections& sections,
                     const std::map<std::uint32_t, std::size_t>& provider_at, Object& object,
                     Budget& budget, Problems& problems);

// Decodes DOF, from any hands (docs/formats/dof.md, "What a reader must check").

struct Objects {
  std::vector<Object> objects;      ///< in the section's order
  std::vector<Problem> problems;    ///< what is no DOF, and where
  std::uint64_t decoded_bytes = 0;  ///< what they take, about
};

/// Decodes the bytes of a `.SUNW_dof` section: one DOF after another, each 8-aligned, zeros
/// between. What is no DOF, or has a header that cannot be trusted, is reported and passed over, up
/// to the next 8-aligned beginning of one. What is wrong within a DOF costs as little of it as can
/// be (a record, a provider), and is reported in its `problems`. Never more memory than
/// limits::dof_expansion times the input, or `most` bytes.
Objects read(std::span<const std::byte> section, std::uint64_t most = limits::dof_decoded_bytes);

}  // namespace vitrine::dof
