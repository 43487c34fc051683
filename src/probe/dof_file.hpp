// The DOFs of an ELF file: where they are, and what a dynamic linker would make of them
// (docs/formats/dof.md, "Finding DOF in a file").
#pragma once

#include <string>
#include <vector>

#include "dof/address.hpp"
#include "dof/dof.hpp"
#include "elf/file.hpp"
#include "elf/file_relocations.hpp"

namespace vitrine::probe {

struct PlacedDof {
  /// The words of its records are what the dynamic linker leaves in them, at a load base of 0.
  dof::Object object;
  Address address = 0;            ///< of its header, in the file's own address space
  std::uint64_t file_offset = 0;  ///< of its header
  /// What the dynamic linker has to write into it, by address. Ours needs nothing: it stays
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

/// Finds and decodes the DOFs of a file of any kind: in `.SUNW_dof` sections, or, where the file has
/// no section headers, in what it loads.
DofFile find_dof(Memory& file, const elf::File& elf);

}  // namespace vitrine::probe
