// From DOFs to probes: where their sites are, that a probe stands there, and what its arguments are
// (docs/formats/dof.md, "Finding DOF in a file").
#pragma once

#include <string>
#include <vector>

#include "base/memory.hpp"
#include "probe/dof_file.hpp"
#include "probe/probe.hpp"
#include "probe/site_address.hpp"

namespace vitrine::probe {

struct DofProbes {
  std::vector<Probe> probes;          ///< each once, in the order of the DOFs
  std::size_t left_out = 0;           ///< copies of functions that the linker left out
  std::vector<std::string> problems;  ///< what could not be used; each a sentence
};

/// The probes that the DOFs of `file` announce. A site that is not in the file's code, or where none
/// of the instructions is that take the place of a probe's call, has no `file_offset`, and says why:
/// a breakpoint there might be in the middle of an instruction.
DofProbes make_dof_probes(const DofFile& dofs, Memory& file, const FileLayout& layout,
                          Machine machine);

}  // namespace vitrine::probe
