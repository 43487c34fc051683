// Where a DOF's functions, sites and semaphores are: the one home of that arithmetic
// (docs/formats/dof.md, "Addresses").
#pragma once

#include <cstdint>
#include <optional>

#include "dof/dof.hpp"

namespace vitrine::dof {

/// Where a DOF is. Both in one address space: the file's own (a load base of 0), or a process's.
struct Placement {
  std::uint64_t header = 0;     ///< the address of its header
  std::uint64_t load_base = 0;  ///< what the loader added to the file's addresses
};

/// An address of the model: ILP32's wrap at 2^32, as the linkers' PC-relative relocations do.
std::uint64_t wrapped(Model model, std::uint64_t address);

/// Where the function of a record begins. Nullopt: the linker left that copy of it out (a COMDAT
/// twin, an archive member, a dead section), which is no error: the weak fallback of its symbol
/// (the DOF's own address) or nothing (0) took its place.
std::optional<std::uint64_t> function_address(const Object& object, const Record& record,
                                              Placement placement);

/// A site of a function: `offset` is one of Record::offsets or enabled_offsets.
std::uint64_t site_address(Model model, std::uint64_t function, std::uint32_t offset);

/// Where a semaphore's counter is; nullopt: the linker left it out.
std::optional<std::uint64_t> semaphore_address(const Object& object, const Semaphore& semaphore,
                                               Placement placement);

}  // namespace vitrine::dof
