// The object that goes into the link beside the processed ones: the DOF, the stubs, the counters of
// observers (docs/formats/object-step.md, "Probe object").
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "usdt/definition.hpp"
#include "usdt/link.hpp"
#include "usdt/machine.hpp"

namespace vitrine::usdt {

struct ProbeObjectParts {
  const ObjectMachine* machine = nullptr;
  std::vector<FunctionSites> functions;  ///< of all objects
  std::uint32_t features = ~0U;          ///< GNU property bits that all objects claim
  bool pointer_protocol = false;         ///< is-enabled checks take a pointer (DOF version 3)
  bool registration = false;             ///< for the constructor of vitrine/usdt_register.c
  bool weak_aliases = false;             ///< LinkOptions::lld
  bool sdt = true;                       ///< LinkOptions::sdt
};

/// The bytes of the file: the same parts give the same bytes. Errors: usage, limit.
Result<std::vector<std::byte>> probe_object(const Definition& definition, ProbeObjectParts parts);

}  // namespace vitrine::usdt
