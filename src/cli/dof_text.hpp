// A DOF on a terminal (vitrine usdt dump).
#pragma once

#include <string>

#include "cli/text.hpp"
#include "observe/dof_listing.hpp"

namespace vitrine::cli {

/// The lines of one DOF: where and what it is, what it needs of linkers, then provider by provider
/// each probe with its sites.
std::string dof_text(const observe::DofListing& listing, const probe::PlacedDof& dof,
                     const Style& style);

}  // namespace vitrine::cli
