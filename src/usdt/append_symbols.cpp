#include "usdt/append_symbols.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "usdt/append.hpp"

namespace vitrine::usdt {
namespace {

template <class Symbol>
void append_symbol(std::vector<std::byte>& table, std::size_t name, const NewSymbol& added) {
  const Place& place = added.place;
  Symbol symbol{};
  symbol.st_name = static_cast<Elf32_Word>(name);
  symbol.st_info = ELF64_ST_INFO(added.binding, STT_NOTYPE);
  symbol.st_other = STV_HIDDEN;
  symbol.st_shndx = place.section < SHN_LORESERVE ? static_cast<Elf32_Half>(place.section)
                                                  : static_cast<Elf32_Half>(SHN_XINDEX);
  symbol.st_value = static_cast<decltype(symbol.st_value)>(place.offset);
  append(table, symbol);
}

std::vector<std::byte> copy(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

/// Where in the file a section header keeps where its section is.
template <class Header, class SectionHeader>
void move_section(std::vector<std::byte>& bytes, std::uint32_t section, std::size_t offset,
                  std::size_t size) {
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  std::byte* at = bytes.data() + header.e_shoff + section * sizeof(SectionHeader);
  SectionHeader moved;
  std::memcpy(&moved, at, sizeof moved);
  moved.sh_offset = static_cast<decltype(moved.sh_offset)>(offset);
  moved.sh_size = static_cast<decltype(moved.sh_size)>(size);
  std::memcpy(at, &moved, sizeof moved);
}

void place(std::vector<std::byte>& bytes, bool wide, std::uint32_t section,
           std::span<const std::byte> content) {
  bytes.resize((bytes.size() + 7) / 8 * 8);
  const std::size_t offset = bytes.size();
  bytes.insert(bytes.end(), content.begin(), content.end());
  if (wide)
    move_section<Elf64_Ehdr, Elf64_Shdr>(bytes, section, offset, content.size());
  else
    move_section<Elf32_Ehdr, Elf32_Shdr>(bytes, section, offset, content.size());
}

}  // namespace

Result<void> append_symbols(std::vector<std::byte>& bytes, const ObjectFile& object,
                            std::span<const NewSymbol> symbols) {
  if (symbols.empty()) return {};
  const std::uint32_t names_section = object.sections()[object.symbol_table()].link;
  auto table = copy(object.content(object.symbol_table()));
  auto names = copy(object.content(names_section));
  std::vector<std::byte> wide_indices;
  if (object.wide_indices() != 0) wide_indices = copy(object.content(object.wide_indices()));
  for (const NewSymbol& symbol : symbols) {
    if (symbol.place.section >= SHN_LORESERVE && object.wide_indices() == 0)
      return fail(ErrorCode::unsupported, object.describe(symbol.place.section) +
                                              ": no symbol can refer to the new sections, because "
                                              "the extended section table is missing");
    if (object.machine().wide)
      append_symbol<Elf64_Sym>(table, names.size(), symbol);
    else
      append_symbol<Elf32_Sym>(table, names.size(), symbol);
    if (object.wide_indices() != 0)
      append(wide_indices,
             symbol.place.section < SHN_LORESERVE ? Elf32_Word{0} : symbol.place.section);
    const auto name = std::as_bytes(std::span(symbol.name));
    names.insert(names.end(), name.begin(), name.end());
    names.push_back(std::byte{0});
  }
  const std::size_t end = bytes.size() + table.size() + names.size() + wide_indices.size();
  if (end > std::numeric_limits<std::int32_t>::max() && !object.machine().wide)
    return fail(ErrorCode::limit, "it would exceed the 2 GiB of its format");
  const bool wide = object.machine().wide;
  place(bytes, wide, object.symbol_table(), table);
  place(bytes, wide, names_section, names);
  if (object.wide_indices() != 0) place(bytes, wide, object.wide_indices(), wide_indices);
  return {};
}

}  // namespace vitrine::usdt
