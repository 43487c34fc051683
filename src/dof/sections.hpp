// The sections of a DOF, checked, and their relocations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "abi/dof.h"
#include "base/result.hpp"
#include "dof/dof.hpp"
#include "dof/header.hpp"

namespace vitrine::dof {

// The sections of a DOF, checked: nothing is taken from one that is not sound (docs/formats/dof.md,
// "What a reader must check").

/// Views into the DOF's bytes, which must outlive it.
class Sections {
 public:
  /// Reads the table. What is wrong with one section makes that one unusable, and is reported.
  /// Errors: malformed (the table itself is out of bounds).
  static Result<Sections> read(std::span<const std::byte> dof, const vitrine_dof_header& header,
                               Problems& problems);

  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(all_.size()); }
  [[nodiscard]] const vitrine_dof_section& at(std::uint32_t index) const { return all_[index].raw; }
  [[nodiscard]] bool usable(std::uint32_t index) const { return all_[index].usable; }

  /// The content of a sound section of `type`. Errors: malformed, with what is at `index` instead.
  [[nodiscard]] Result<std::span<const std::byte>> content(std::uint32_t index,
                                                           std::uint32_t type) const;

  /// The string at `offset` of the string table `table`, of 0 to `most` bytes. Errors: malformed.
  [[nodiscard]] Result<std::string_view> string(std::uint32_t table, std::uint64_t offset,
                                                std::size_t most) const;

 private:
  struct Section {
    vitrine_dof_section raw;
    bool usable = false;
  };

  Sections(std::span<const std::byte> dof, const vitrine_dof_header& header)
      : dof_(dof), header_(header) {}

  [[nodiscard]] Result<void> check(const vitrine_dof_section& section) const;
  [[nodiscard]] Result<void> check_place(const vitrine_dof_section& section) const;
  void report_overlaps(Problems& problems) const;

  std::span<const std::byte> dof_;
  vitrine_dof_header header_;
  std::vector<Section> all_;
};

/// "PROBES (16)": what a section type is called.
std::string section_type_name(std::uint32_t type);

// The relocations of a DOF: which words are not addresses yet (docs/formats/dof.md, "Relocations").

/// Never applied to the bytes: a relocation that lies could then rewrite what was checked already.
class Relocations {
 public:
  /// Reads all of them. Those that lie outside of an address word are reported and change nothing;
  /// a word for which they make no sense becomes unusable.
  Relocations(const Sections& sections, Budget& budget, Problems& problems);

  /// How the word at `offset` of the DOF becomes an address; nullopt: its description is not
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
