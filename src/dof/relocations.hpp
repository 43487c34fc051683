// The relocations of a DOF: which words are not addresses yet (docs/formats/dof.md, "Relocations").
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "dof/dof.hpp"
#include "dof/sections.hpp"

namespace vitrine::dof {

/// Never applied to the bytes: a relocation that lies could then rewrite what was checked already.
class Relocations {
 public:
  /// Reads all of them. Those that lie outside of an address word are told and change nothing; a
  /// word for which they make no sense becomes unusable.
  Relocations(const Sections& sections, Budget& budget, Problems& problems);

  /// How the word at `offset` of the DOF becomes an address; nullopt: what was said of it makes no
  /// sense.
  [[nodiscard]] std::optional<Relocation> of(std::uint64_t offset) const;

 private:
  void read(std::uint32_t header_index);
  void read_one(std::uint32_t index, const vitrine_dof_relocation& relocation,
                const vitrine_dof_relocation_header& header, const vitrine_dof_section& target);

  const Sections& sections_;
  Budget& budget_;
  Problems& problems_;
  std::unordered_map<std::uint64_t, std::optional<Relocation>> of_word_;
};

}  // namespace vitrine::dof
