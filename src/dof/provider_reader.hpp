// A provider of a DOF, with its records (docs/formats/dof.md, "Providers and probes").
#pragma once

#include "dof/dof.hpp"
#include "dof/relocations.hpp"
#include "dof/sections.hpp"

namespace vitrine::dof {

/// What reading a provider needs to know of its DOF.
struct ProviderSource {
  const Sections& sections;
  const Relocations& relocations;
  std::uint8_t version;  ///< of the DOF
  Budget& budget;
  Problems& problems;
};

/// Reads the provider in section `index`; a record that makes no sense is told and left out.
/// Errors: malformed (nothing of it can be used).
Result<Provider> read_provider(const ProviderSource& source, std::uint32_t index);

/// The provider's own record. Errors: malformed.
Result<vitrine_dof_provider> read_provider_record(const Sections& sections, std::uint8_t version,
                                                  std::uint32_t index);

}  // namespace vitrine::dof
