#include "symbol/address_ranges.hpp"

#include "base/limits.hpp"
#include "elf/cursor.hpp"

namespace vitrine::symbol {

ListedUnits list_units(std::span<const std::byte> section, const elf::Encoding& encoding,
                       const std::function<bool(Address)>& is_code) {
  constexpr std::uint64_t is_wide = 0xffffffff, reserved = 0xfffffff0;
  ListedUnits units;
  elf::Cursor all(section, encoding);
  while (!all.at_end() && units.offsets.size() < limits::dwarf_units) {
    const std::size_t begin = all.position();
    std::uint64_t size = all.word(4);
    const std::size_t offset_bytes = size == is_wide ? 8 : 4;
    if (size == is_wide) size = all.word(8);
    if (offset_bytes == 4 && size >= reserved) break;
    const std::size_t before = all.position() - begin;
    elf::Cursor set = all.part(size);
    const auto version = set.number<std::uint16_t>();
    const std::uint64_t offset = set.word(offset_bytes);
    const std::size_t address_bytes = set.u8(), segment_bytes = set.u8();
    if (set.failed() || version != 2 || segment_bytes != 0 ||
        (address_bytes != 4 && address_bytes != 8))
      break;
    // The tuples are aligned from where the set begins.
    if (const std::size_t over = (before + set.position()) % (2 * address_bytes); over != 0)
      static_cast<void>(set.take(2 * address_bytes - over));
    const auto index = static_cast<std::uint32_t>(units.offsets.size());
    bool has_code = false;
    while (set.left() >= 2 * address_bytes && units.ranges.size() < limits::dwarf_ranges) {
      const Address start = set.word(address_bytes), length = set.word(address_bytes);
      if (start == 0 && length == 0) break;
      if (length > ~start || !is_code(start)) continue;
      units.ranges.add(start, start + length, index, ~offset);
      has_code = true;
    }
    if (has_code) units.offsets.push_back(offset);
  }
  units.ranges.build();
  return units;
}

}  // namespace vitrine::symbol
