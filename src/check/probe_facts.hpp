// What a file tells of its probes, note by note and DOF by DOF: more than a listing of them keeps.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "elf/symbol_table.hpp"
#include "probe/argument.hpp"
#include "probe/dof_file.hpp"
#include "probe/dof_probes.hpp"
#include "probe/site_address.hpp"

namespace vitrine::check {

struct ArgumentFault {
  std::size_t site = 0;      ///< index in SdtFacts::sites
  std::size_t argument = 0;  ///< index in its list
  probe::ArgumentError error;
};

/// One note, whose site the linker has kept.
struct SdtSite {
  std::string provider, name;
  Address base = 0;  ///< as the note has it
  probe::Site site;
  std::vector<std::byte> code;  ///< the file's bytes from the site on, at most bpf::site_bytes
};

struct SdtFacts {
  std::vector<elf::Section> sections;    ///< `.note.stapsdt`
  std::vector<std::string> problems;     ///< notes that cannot be decoded
  std::size_t notes = 0;                 ///< decoded
  std::size_t tombstones = 0;            ///< of those: their code was left out
  std::vector<SdtSite> sites;            ///< of the others, in the section's order
  std::vector<ArgumentFault> arguments;  ///< that cannot be decoded
  bool base_section = false;             ///< `.stapsdt.base`
  bool semaphore_section = false;        ///< `.probes`
  std::vector<Address> exported;         ///< addresses of its preemptible symbols, ascending
};

struct DofFacts {
  probe::DofFile file;
  probe::DofProbes probes;
};

SdtFacts read_sdt_facts(Memory& file, const elf::File& elf, std::uint64_t file_size);
DofFacts read_dof_facts(Memory& file, const elf::File& elf, std::uint64_t file_size);

}  // namespace vitrine::check
