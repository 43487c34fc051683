// The counters of observers that our own object step tells of (abi/dof.h,
// VITRINE_DOF_SECTION_SEMAPHORES).
#pragma once

#include <map>

#include "dof/dof.hpp"
#include "dof/sections.hpp"

namespace vitrine::dof {

/// Adds them to their providers. `provider_at`: which of `object.providers` section N became.
void read_semaphores(const Sections& sections,
                     const std::map<std::uint32_t, std::size_t>& provider_at, Object& object,
                     Budget& budget, Problems& problems);

}  // namespace vitrine::dof
