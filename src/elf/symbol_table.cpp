#include "elf/symbol_table.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>

#include "base/limits.hpp"
#include "elf/section_bytes.hpp"

namespace vitrine::elf {
namespace {

std::uint32_t hash_of(std::string_view name) {
  return static_cast<std::uint32_t>(std::hash<std::string_view>{}(name));
}

Result<std::vector<std::byte>> read_whole(Memory& file, const File& elf, const Section& section,
                                          std::uint64_t most, const char* what) {
  if (section.size > most)
    return fail(ErrorCode::limit, fmt::format("{} bytes of {}", section.size, what));
  auto read = TRY(read_section(file, elf, section, most));
  return std::move(read.bytes);
}

}  // namespace

Result<SymbolTable> SymbolTable::read(Memory& file, const File& elf, std::uint32_t type) {
  const auto section = std::find_if(elf.sections.begin(), elf.sections.end(),
                                    [&](const Section& one) { return one.type == type; });
  if (section == elf.sections.end())
    return fail(ErrorCode::not_found, "the file has no such symbol table");
  if (section->link >= elf.sections.size())
    return fail(ErrorCode::malformed, fmt::format("the symbol table links to section {} of {}",
                                                  section->link, elf.sections.size()));
  SymbolTable table;
  table.encoding_ = elf.encoding;
  table.entry_bytes_ = elf.encoding.wide ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
  table.symbols_ =
      TRY(read_whole(file, elf, *section, limits::file_symbols * table.entry_bytes_, "symbols"));
  table.strings_ = TRY(read_whole(file, elf, elf.sections[section->link], limits::symbol_name_table,
                                  "symbol names"));
  table.size_ = table.symbols_.size() / table.entry_bytes_;
  return table;
}

TableSymbol SymbolTable::at(std::size_t index) const {
  const std::byte* at = symbols_.data() + index * entry_bytes_;
  const auto field = [&](std::size_t wide, std::size_t narrow) {
    return at + (encoding_.wide ? wide : narrow);
  };
#define AT(member) field(offsetof(Elf64_Sym, member), offsetof(Elf32_Sym, member))
  const auto info = std::to_integer<std::uint8_t>(*AT(st_info));
  return {encoding_.u32(AT(st_name)),
          encoding_.address(AT(st_value)),
          encoding_.address(AT(st_size)),
          static_cast<std::uint8_t>(info & 15),
          static_cast<std::uint8_t>(info >> 4),
          encoding_.u16(AT(st_shndx)),
          std::to_integer<std::uint8_t>(*AT(st_other) & std::byte{3})};
#undef AT
}

std::string_view SymbolTable::name(const TableSymbol& symbol) const {
  const std::string_view all(reinterpret_cast<const char*>(strings_.data()), strings_.size());
  if (symbol.name >= all.size()) return {};
  const std::string_view rest = all.substr(symbol.name, limits::name_bytes + 1);
  const std::size_t end = rest.find('\0');
  return end == rest.npos ? std::string_view() : rest.substr(0, end);
}

void SymbolTable::make_index() const {
  // Names may share their tails, but not without end: a table where each is the tail of one long
  // string would take minutes.
  std::uint64_t budget = 16 * strings_.size() + (1U << 20);
  index_.reserve(size_);
  for (std::size_t i = 0; i < size_; ++i) {
    const std::string_view text = name(at(i));
    if (text.empty()) continue;
    if (text.size() > budget) break;
    budget -= text.size();
    index_.push_back({hash_of(text), static_cast<std::uint32_t>(i)});
  }
  std::sort(index_.begin(), index_.end());
}

std::vector<std::size_t> SymbolTable::find(std::string_view wanted) const {
  if (index_.empty()) make_index();
  std::vector<std::size_t> found;
  const std::uint32_t hash = hash_of(wanted);
  for (auto entry = std::lower_bound(index_.begin(), index_.end(), Entry{hash, 0});
       entry != index_.end() && entry->hash == hash; ++entry)
    if (name(at(entry->index)) == wanted) found.push_back(entry->index);
  return found;
}

}  // namespace vitrine::elf
