#include "dof/sections.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "dof/header.hpp"

namespace vitrine::dof {
namespace {

constexpr std::array<const char*, 27> type_names = {
    "NONE",    "COMMENTS",  "SOURCE",   "ECBDESC",  "PROBEDESC", "ACTDESC", "DIFOHDR",
    "DIF",     "STRTAB",    "VARTAB",   "RELTAB",   "TYPTAB",    "URELHDR", "KRELHDR",
    "OPTDESC", "PROVIDER",  "PROBES",   "PRARGS",   "PROFFS",    "INTTAB",  "UTSNAME",
    "XLTAB",   "XLMEMBERS", "XLIMPORT", "XLEXPORT", "PREXPORT",  "PRENOFFS"};

bool is_loadable_type(std::uint32_t type) {
  return type > VITRINE_DOF_SECTION_SOURCE && type < type_names.size() &&
         type != VITRINE_DOF_SECTION_UTSNAME;
}

/// How large the entries of a table must be; 0: it is no table.
std::uint32_t entry_size_of(std::uint32_t type) {
  switch (type) {
    case VITRINE_DOF_SECTION_PROBES:
      return sizeof(vitrine_dof_probe);
    case VITRINE_DOF_SECTION_RELTAB:
      return sizeof(vitrine_dof_relocation);
    case VITRINE_DOF_SECTION_SEMAPHORES:
      return sizeof(vitrine_dof_semaphore);
    case VITRINE_DOF_SECTION_PROFFS:
    case VITRINE_DOF_SECTION_PRENOFFS:
      return sizeof(std::uint32_t);
    case VITRINE_DOF_SECTION_PRARGS:
      return 1;
    default:
      return 0;
  }
}

/// Records may have grown in a later version; numbers have not.
Result<void> check_entries(const vitrine_dof_section& section) {
  const std::uint32_t least = entry_size_of(section.type);
  if (least == 0) return {};
  const std::uint32_t size = section.entry_size;
  const bool records = least > sizeof(std::uint32_t);
  if (records ? size < least || size % 8 != 0 : size != least)
    return malformed("its entries are of {} bytes instead of {}", size, least);
  if (section.size % size != 0)
    return malformed("its {} bytes are not a multiple of its entry size {}", section.size, size);
  return {};
}

}  // namespace

std::string section_type_name(std::uint32_t type) {
  if (type == VITRINE_DOF_SECTION_SEMAPHORES) return "SEMAPHORES";
  if (type >= type_names.size()) return fmt::format("unknown type {:#x}", type);
  return fmt::format("{} ({})", type_names[type], type);
}

Result<Sections> Sections::read(std::span<const std::byte> dof, const vitrine_dof_header& header,
                                Problems& problems) {
  if (header.section_size < sizeof(vitrine_dof_section) || header.section_size % 8 != 0 ||
      header.section_size > limits::dof_section_header_bytes)
    return malformed("its section headers have {} bytes: not a multiple of 8 from {} to {}",
                     header.section_size, sizeof(vitrine_dof_section),
                     limits::dof_section_header_bytes);
  if (header.section_offset % 8 != 0 || header.section_offset < header.header_size)
    return malformed("its section headers begin at byte {}: not a multiple of 8 after its header",
                     header.section_offset);
  // Both factors have 32 bits: no overflow.
  const std::uint64_t table = std::uint64_t{header.section_count} * header.section_size;
  if (header.section_offset > header.loadable_size ||
      table > header.loadable_size - header.section_offset)
    return malformed(
        "its {} section headers of {} bytes at byte {} go beyond its {} loadable bytes",
        header.section_count, header.section_size, header.section_offset, header.loadable_size);
  Sections sections(dof, header);
  sections.all_.reserve(header.section_count);
  for (std::uint32_t i = 0; i < header.section_count; ++i) {
    const auto raw = load<vitrine_dof_section>(
        dof, header.section_offset + std::uint64_t{i} * header.section_size);
    const auto checked = sections.check(raw);
    if (!checked)
      problems.add(Part::sections, "section {}, {}: {}", i, section_type_name(raw.type),
                   checked.error().message);
    sections.all_.push_back({raw, checked.has_value()});
  }
  sections.report_overlaps(problems);
  return sections;
}

Result<void> Sections::check(const vitrine_dof_section& section) const {
  const bool is_semaphores = section.type == VITRINE_DOF_SECTION_SEMAPHORES;
  if ((section.flags & VITRINE_DOF_SECTION_LOAD) == 0 && !is_semaphores) {
    if (is_loadable_type(section.type)) return malformed("it is not marked as loadable");
    return {};  // for others
  }
  TRY(check_place(section));
  TRY(check_entries(section));
  if (section.type != VITRINE_DOF_SECTION_STRTAB) return {};
  if (section.size == 0) return malformed("it is empty, and contains no string");
  if (dof_[section.offset + section.size - 1] != std::byte{0})
    return malformed("its last string is not terminated");
  return {};
}

Result<void> Sections::check_place(const vitrine_dof_section& section) const {
  const std::uint64_t end =
      (section.flags & VITRINE_DOF_SECTION_LOAD) != 0 ? header_.loadable_size : header_.file_size;
  const std::uint32_t alignment = std::max(section.alignment, 1U);
  if (!std::has_single_bit(alignment))
    return malformed("its alignment {} is not a power of two", alignment);
  if (section.offset % alignment != 0)
    return malformed("it begins at byte {}, which is not a multiple of its alignment {}",
                     section.offset, alignment);
  if (section.offset > end || section.size > end - section.offset)
    return malformed("its {} bytes at byte {} exceed the {} available", section.size,
                     section.offset, end);
  const std::uint64_t table_end =
      header_.section_offset + std::uint64_t{header_.section_count} * header_.section_size;
  const bool in_header = section.offset < header_.header_size;
  const bool in_table =
      section.offset < table_end && section.offset + section.size > header_.section_offset;
  if (section.size > 0 && (in_header || in_table))
    return malformed("its {} bytes at byte {} overlap the {}", section.size, section.offset,
                     in_header ? "header" : "section headers");
  return {};
}

/// Harmless to us, as we write nowhere, but no honest writer makes them.
void Sections::report_overlaps(Problems& problems) const {
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < count(); ++i) {
    const bool placed = (at(i).flags & VITRINE_DOF_SECTION_LOAD) != 0 ||
                        at(i).type == VITRINE_DOF_SECTION_SEMAPHORES;
    if (usable(i) && placed && at(i).size > 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](auto a, auto b) {
    return std::pair(at(a).offset, a) < std::pair(at(b).offset, b);
  });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const vitrine_dof_section& before = at(order[i - 1]);
    if (at(order[i]).offset < before.offset + before.size)
      problems.add(Part::sections, "sections {} and {} overlap at byte {}", order[i - 1], order[i],
                   at(order[i]).offset);
  }
}

Result<std::span<const std::byte>> Sections::content(std::uint32_t index,
                                                     std::uint32_t type) const {
  const std::string wanted = section_type_name(type);
  if (index >= count())
    return malformed("refers to section {} as its {}, of {}", index, wanted, count());
  const vitrine_dof_section& section = at(index);
  if (section.type != type)
    return malformed("refers to section {} as its {}, which is {}", index, wanted,
                     section_type_name(section.type));
  if (!usable(index))
    return malformed("refers to section {} as its {}, which is broken", index, wanted);
  return dof_.subspan(section.offset, section.size);
}

Result<std::string_view> Sections::string(std::uint32_t table, std::uint64_t offset,
                                          std::size_t most) const {
  const auto bytes = TRY(content(table, VITRINE_DOF_SECTION_STRTAB));
  if (offset >= bytes.size())
    return malformed("is at byte {} of the {} in string table {}", offset, bytes.size(), table);
  const auto rest = bytes.subspan(offset);
  // The table ends in a NUL, so only a long string has none here.
  const auto* text = reinterpret_cast<const char*>(rest.data());
  const std::size_t size = strnlen(text, std::min(rest.size(), most + 1));
  if (size > most) return malformed("has more than {} bytes", most);
  return std::string_view(text, size);
}

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
