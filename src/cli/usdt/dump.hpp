// vitrine usdt dump: a DOF as one JSON object, or as text.
#pragma once

#include <string>

#include "cli/output/json.hpp"
#include "cli/output/text.hpp"
#include "observe/probes/probes.hpp"

namespace vitrine::cli {

// A DOF as one JSON object (vitrine usdt dump --json).

/// {"file","address","file_offset","model":"lp64|ilp32","version","loadable_size","file_size",
/// "providers":[{"name","stability":{"provider","module","function","name","args":each
/// "Name/Data/Class"},"records":[…],"semaphores":[{"probe","address"}]}], and "problems" when there
/// are such}. Numbers of addresses and offsets are hex strings, sizes are numbers.
///
/// A record is of one probe in one function: {"probe","function","address": of the function, null
/// where the linker left it out,"sites":[…],"enabled_sites":[…]: addresses, null where that is,
/// "offsets","enabled_offsets": the same from the function's start,"types","native_types":[…],
/// "argument_map":[number…],"relocation":"none|setx|dofrel","word","word_offset"}.
///
/// Of a linked file: "dynamic_relocations": how many the DOF needs; of a relocatable one, where no
/// address is known: "relocations":[{"offset","type","symbol","addend"}].
Json to_json(const observe::DofListing& listing, const probe::PlacedDof& dof);

// A DOF on a terminal (vitrine usdt dump).

/// The lines of one DOF: where and what it is, what it needs of linkers, then provider by provider
/// each probe with its sites.
std::string dof_text(const observe::DofListing& listing, const probe::PlacedDof& dof,
                     const Style& style);

}  // namespace vitrine::cli
