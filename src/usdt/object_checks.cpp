// What must hold of an object's sections, groups and relocations before anyone uses them.
#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "usdt/object_file.hpp"
#include "usdt/raw_object.hpp"

namespace vitrine::usdt {

Result<void> ObjectFile::check_sections() {
  for (std::uint32_t i = 1; i < sections().size(); ++i) {
    const elf::Section& section = sections()[i];
    if (section.type == SHT_NOBITS || section.type == SHT_NULL) continue;
    if (section.offset > bytes_.size() || section.size > bytes_.size() - section.offset)
      return malformed(fmt::format("{}: its {} bytes at {} reach beyond the end of the file, {}",
                                   describe(i), section.size, section.offset, bytes_.size()));
  }
  return {};
}

/// A byte that is two things would be changed for the one and spoil the other.
Result<void> ObjectFile::check_overlaps() const {
  struct Range {
    std::uint64_t from, to;
    std::uint32_t section;  ///< 0: the file's own headers
  };
  std::uint64_t headers_at = 0;
  if (machine().wide)
    headers_at = at<Elf64_Ehdr>(bytes_, 0).e_shoff;
  else
    headers_at = at<Elf32_Ehdr>(bytes_, 0).e_shoff;
  const std::uint64_t header = machine().wide ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
  std::vector<Range> ranges{{0, machine().wide ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr), 0},
                            {headers_at, headers_at + sections().size() * header, 0}};
  for (std::uint32_t i = 1; i < sections().size(); ++i)
    if (const auto bytes = content(i); !bytes.empty())
      ranges.push_back({sections()[i].offset, sections()[i].offset + bytes.size(), i});
  std::ranges::sort(ranges, {}, [](const Range& one) { return std::pair(one.from, one.to); });
  for (std::size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].from < ranges[i - 1].to)
      return malformed(fmt::format(
          "{}: it overlaps {}", describe(std::max(ranges[i].section, ranges[i - 1].section)),
          ranges[i].section == 0 || ranges[i - 1].section == 0
              ? "the headers of the file"
              : describe(std::min(ranges[i].section, ranges[i - 1].section))));
  return {};
}

Result<void> ObjectFile::check_groups() const {
  std::vector<bool> taken(sections().size());
  for (std::uint32_t i = 1; i < sections().size(); ++i) {
    const elf::Section& group = sections()[i];
    if (group.type != SHT_GROUP) continue;
    const auto words = content(i);
    if (words.size() < sizeof(Elf32_Word) || words.size() % sizeof(Elf32_Word) != 0 ||
        group.info >= symbols_.size())
      return malformed(describe(i) + ": it is not a valid section group");
    for (std::size_t w = sizeof(Elf32_Word); w < words.size(); w += sizeof(Elf32_Word)) {
      const auto member = at<Elf32_Word>(words, w);
      if (member == 0 || member >= sections().size() || sections()[member].type == SHT_GROUP)
        return malformed(fmt::format("{}: section {} cannot be in a group", describe(i), member));
      if (taken[member])
        return malformed(fmt::format("{}: {} is in two groups", describe(i), describe(member)));
      taken[member] = true;
    }
  }
  return {};
}

Result<void> ObjectFile::check_relocations() {
  for (std::uint32_t i = 1; i < sections().size(); ++i) {
    const elf::Section& table = sections()[i];
    if (table.type != SHT_REL && table.type != SHT_RELA) continue;
    const bool addends = table.type == SHT_RELA;
    const std::size_t entry = machine().wide ? (addends ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel))
                                             : (addends ? sizeof(Elf32_Rela) : sizeof(Elf32_Rel));
    if (table.entry_size != entry || table.size % entry != 0)
      return malformed(fmt::format("{}: {} bytes in entries of {}, but {} are required",
                                   describe(i), table.size, table.entry_size, entry));
    if (table.link != symbol_table_ || symbol_table_ == 0)
      return malformed(
          fmt::format("{}: its symbols are in section {}, which is not the symbol table",
                      describe(i), table.link));
    if (table.info == 0 || table.info >= sections().size())
      return malformed(fmt::format("{}: it applies to section {} of {}", describe(i), table.info,
                                   sections().size()));
    relocations_.push_back({table.info, addends, static_cast<std::size_t>(table.offset),
                            static_cast<std::size_t>(table.size / entry)});
    const elf::Section& target = sections()[table.info];
    const bool loaded = (target.flags & SHF_ALLOC) != 0;  // debug information may be compressed
    for (std::size_t r = 0; r < relocations_.back().count; ++r) {
      const Relocation one = relocation(relocations_.back(), r);
      if (one.symbol >= symbols_.size())
        return malformed(fmt::format("{}: relocation {} refers to symbol {} of {}", describe(i), r,
                                     one.symbol, symbols_.size()));
      if (loaded && (one.offset > target.size || (one.offset == target.size && one.type != 0)))
        return malformed(fmt::format("{}: relocation {} is at {} of a section of {} bytes",
                                     describe(i), r, one.offset, target.size));
    }
  }
  return {};
}

}  // namespace vitrine::usdt
