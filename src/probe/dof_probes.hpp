// DOFs of an ELF file, and the probes in them.
#pragma once

#include <string>
#include <vector>

#include "base/memory.hpp"
#include "dof/dof.hpp"
#include "elf/file.hpp"
#include "elf/relocations.hpp"
#include "probe/probe.hpp"
#include "probe/site_address.hpp"

namespace vitrine::probe {

// The DOFs of an ELF file: where they are, and what a dynamic linker would make of them
// (docs/formats/dof.md, "Finding DOF in a file").

struct PlacedDof {
  /// The words of its records are what the dynamic linker leaves in them, at a load base of 0.
  dof::Object object;
  Address address = 0;            ///< of its header, in the file's own address space
  std::uint64_t file_offset = 0;  ///< of its header
  /// What the dynamic linker has to write into it, by address. vitrine's needs nothing: it stays
  /// read-only, shared.
  std::vector<elf::DynamicRelocation> dynamic_relocations;
  /// In a relocatable file: what the linker will write into it, from its header.
  std::vector<elf::SectionRelocation> relocations;

  /// For dof::function_address() and the like: in the file's own address space.
  [[nodiscard]] dof::Placement placement() const { return {address, 0}; }
};

struct DofFile {
  std::vector<PlacedDof> dofs;
  bool content_elsewhere = false;     ///< a debug file: the program has the DOF, this its headers
  bool searched = false;              ///< without sections: found by their first bytes
  std::vector<std::string> problems;  ///< of finding them; each DOF has its own. Each a sentence
};

/// Whether a section is one of DOF.
bool has_dof(const elf::File& elf, const elf::Section& section);

/// Finds and decodes the DOFs of a file of any kind: in `.SUNW_dof` sections, or, where the file has
/// no section headers, in what it loads.
DofFile find_dof(Memory& file, const elf::File& elf);

// From DOFs to probes: where their sites are, that a probe is there, and what its arguments are
// (docs/formats/dof.md, "Finding DOF in a file").

struct DofProbes {
  std::vector<Probe> probes;          ///< each once, in the order of the DOFs
  std::size_t left_out = 0;           ///< copies of functions that the linker left out
  std::vector<std::string> problems;  ///< what could not be used; each a sentence
};

/// The probes that the DOFs of `file` announce. A site that is not in the file's code, or where none
/// of the instructions is that take the place of a probe's call, has no `file_offset`, and a reason:
/// a breakpoint there might be in the middle of an instruction.
DofProbes make_dof_probes(const DofFile& dofs, Memory& file, const FileLayout& layout,
                          Machine machine);

/// Whether the site of a note is none: the object step writes notes beside its DOF, and the linker has
/// dropped the function of this one.
bool is_dropped(const Site& site, const DofFile& dofs, Memory& file, Machine machine);

}  // namespace vitrine::probe
