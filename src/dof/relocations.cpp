#include "dof/relocations.hpp"

namespace vitrine::dof {

Relocations::Relocations(const Sections& sections, Budget& budget, Problems& problems)
    : sections_(sections), budget_(budget), problems_(problems) {
  for (std::uint32_t i = 0; i < sections_.count() && !budget_.exhausted(); ++i)
    if (sections_.usable(i) && sections_.at(i).type == VITRINE_DOF_SECTION_URELHDR) read(i);
}

std::optional<Relocation> Relocations::of(std::uint64_t offset) const {
  const auto found = of_word_.find(offset);
  return found == of_word_.end() ? std::optional(Relocation::none) : found->second;
}

void Relocations::read(std::uint32_t header_index) {
  const auto bytes = sections_.content(header_index, VITRINE_DOF_SECTION_URELHDR);
  if (!bytes || bytes->size() < sizeof(vitrine_dof_relocation_header)) {
    problems_.add(Part::relocations,
                  "section {}, the header of relocations, has {} bytes instead of {}", header_index,
                  sections_.at(header_index).size, sizeof(vitrine_dof_relocation_header));
    return;
  }
  const auto header = load<vitrine_dof_relocation_header>(*bytes, 0);
  const auto table = sections_.content(header.relocations, VITRINE_DOF_SECTION_RELTAB);
  const auto strings = sections_.content(header.strings, VITRINE_DOF_SECTION_STRTAB);
  const auto target = sections_.content(header.target, VITRINE_DOF_SECTION_PROBES);
  for (const auto* part : {&table, &strings, &target})
    if (!*part) {
      problems_.add(Part::relocations, "section {}, the header of relocations, {}", header_index,
                    part->error().message);
      return;
    }
  const std::uint32_t entry = sections_.at(header.relocations).entry_size;
  for (std::uint64_t at = 0; at < table->size() && !budget_.exhausted(); at += entry)
    read_one(static_cast<std::uint32_t>(at / entry), load<vitrine_dof_relocation>(*table, at),
             header, sections_.at(header.target));
}

void Relocations::read_one(std::uint32_t index, const vitrine_dof_relocation& relocation,
                           const vitrine_dof_relocation_header& header,
                           const vitrine_dof_section& target) {
  constexpr std::uint64_t cost = 64;  // of a node of the map
  if (!budget_.take(cost)) return;
  // A table begins with an address word, and every entry is a whole one: see Sections.
  if (relocation.offset >= target.size || relocation.offset % target.entry_size != 0) {
    problems_.add(Part::relocations,
                  "relocation {} of section {} applies to byte {} of section {}, which is not an "
                  "address word of its {} bytes",
                  index, header.relocations, relocation.offset, header.target, target.size);
    return;
  }
  std::optional<Relocation> kind;
  if (relocation.type <= VITRINE_DOF_RELOCATE_DOFREL)
    kind = static_cast<Relocation>(relocation.type);
  else
    problems_.add(Part::relocations, "relocation {} of section {} has the unknown type {}", index,
                  header.relocations, relocation.type);
  static_assert(static_cast<int>(Relocation::load_base) == VITRINE_DOF_RELOCATE_SETX &&
                static_cast<int>(Relocation::own_address) == VITRINE_DOF_RELOCATE_DOFREL);
  const auto [known, is_new] = of_word_.try_emplace(target.offset + relocation.offset, kind);
  if (is_new) return;
  problems_.add(Part::relocations,
                "relocation {} of section {} is the second one for byte {} of section {}", index,
                header.relocations, relocation.offset, header.target);
  known->second.reset();
}

}  // namespace vitrine::dof
