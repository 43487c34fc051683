#include "elf/dynamic_section.hpp"

#include <elf.h>

#include <algorithm>

#include "elf/section_bytes.hpp"

namespace vitrine::elf {
namespace {

constexpr std::uint64_t dynamic_bytes = 64 * 1024;  // some 30 entries are usual

}  // namespace

std::optional<std::uint64_t> dynamic_value(Memory& file, const File& elf, std::int64_t tag) {
  const auto section = std::find_if(elf.sections.begin(), elf.sections.end(),
                                    [](const Section& one) { return one.type == SHT_DYNAMIC; });
  if (section == elf.sections.end()) return std::nullopt;
  const auto read = read_section(file, elf, *section, dynamic_bytes);
  if (!read) return std::nullopt;
  const std::size_t word = elf.encoding.address_bytes();
  for (std::size_t at = 0; at + 2 * word <= read->bytes.size(); at += 2 * word) {
    const std::uint64_t found = elf.encoding.address(read->bytes.data() + at);
    if (found == DT_NULL) break;
    if (found == static_cast<std::uint64_t>(tag))
      return elf.encoding.address(read->bytes.data() + at + word);
  }
  return std::nullopt;
}

bool is_program(Memory& file, const File& elf) {
  if (elf.type == ET_EXEC) return true;
  if (elf.type != ET_DYN) return false;
  if ((dynamic_value(file, elf, DT_FLAGS_1).value_or(0) & DF_1_PIE) != 0) return true;
  // Linkers before 2016 did not say so. libc.so.6 has an interpreter as well, but a soname.
  const bool interpreted =
      std::any_of(elf.segments.begin(), elf.segments.end(),
                  [](const Segment& segment) { return segment.type == PT_INTERP; });
  return interpreted && !dynamic_value(file, elf, DT_SONAME);
}

}  // namespace vitrine::elf
