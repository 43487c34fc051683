#include "elf/symbol_table.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>

#include "base/limits.hpp"
#include "elf/file.hpp"

namespace vitrine::elf {
namespace {

/// More than that takes no less time to read, and its pages are made first.
constexpr std::size_t chunk_entries = 1024;

std::uint32_t hash_of(std::string_view name) {
  return static_cast<std::uint32_t>(std::hash<std::string_view>{}(name));
}

}  // namespace

std::size_t symbol_bytes(const Encoding& encoding) {
  return encoding.wide ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
}

TableSymbol decode_symbol(const Encoding& encoding, const std::byte* entry) {
  const auto field = [&](std::size_t wide, std::size_t narrow) {
    return entry + (encoding.wide ? wide : narrow);
  };
#define AT(member) field(offsetof(Elf64_Sym, member), offsetof(Elf32_Sym, member))
  const auto info = std::to_integer<std::uint8_t>(*AT(st_info));
  return {encoding.u32(AT(st_name)),
          encoding.address(AT(st_value)),
          encoding.address(AT(st_size)),
          static_cast<std::uint8_t>(info & 15),
          static_cast<std::uint8_t>(info >> 4),
          encoding.u16(AT(st_shndx)),
          std::to_integer<std::uint8_t>(*AT(st_other) & std::byte{3})};
#undef AT
}

Result<void> visit_symbols(Memory& file, const File& elf, const Section& table, std::uint64_t most,
                           const VisitSymbol& visit) {
  const std::size_t entry = symbol_bytes(elf.encoding);
  const std::uint64_t count = std::min(table.size / entry, most);
  std::vector<std::byte> bytes(chunk_entries * entry);
  for (std::uint64_t first = 0; first < count; first += chunk_entries) {
    const Address at = table.offset + first * entry;
    const auto chunk = std::span(bytes).first(
        entry * static_cast<std::size_t>(std::min<std::uint64_t>(chunk_entries, count - first)));
    const std::size_t got = file.read_some(at, chunk);
    for (std::size_t i = 0; i < got / entry; ++i)
      visit(static_cast<std::size_t>(first) + i,
            decode_symbol(elf.encoding, bytes.data() + i * entry));
    if (got < chunk.size())
      TRY(file.read_exact(at, chunk, table.type == SHT_SYMTAB ? ".symtab" : ".dynsym"));
  }
  return {};
}

Result<SymbolSections> find_symbol_sections(const File& elf, std::uint32_t type) {
  const auto section = std::find_if(elf.sections.begin(), elf.sections.end(),
                                    [&](const Section& one) { return one.type == type; });
  if (section == elf.sections.end())
    return fail(ErrorCode::not_found, "the file has no such symbol table");
  if (section->link >= elf.sections.size())
    return fail(ErrorCode::malformed, fmt::format("the symbol table links to section {} of {}",
                                                  section->link, elf.sections.size()));
  const Section& strings = elf.sections[section->link];
  if (section->size > limits::file_symbols * symbol_bytes(elf.encoding))
    return fail(ErrorCode::limit, fmt::format("{} bytes of symbols", section->size));
  if (strings.size > limits::symbol_name_table)
    return fail(ErrorCode::limit, fmt::format("{} bytes of symbol names", strings.size));
  return SymbolSections{&*section, &strings};
}

Result<SymbolTable> SymbolTable::read(Memory& file, const File& elf, std::uint32_t type) {
  const auto sections = TRY(find_symbol_sections(elf, type));
  SymbolTable table;
  table.encoding_ = elf.encoding;
  table.entry_bytes_ = symbol_bytes(elf.encoding);
  table.symbols_ =
      TRY(read_section(file, elf, *sections.symbols, limits::file_symbols * table.entry_bytes_))
          .bytes;
  table.strings_ = TRY(read_section(file, elf, *sections.strings, limits::symbol_name_table)).bytes;
  table.size_ = table.symbols_.size() / table.entry_bytes_;
  return table;
}

TableSymbol SymbolTable::at(std::size_t index) const {
  return decode_symbol(encoding_, symbols_.data() + index * entry_bytes_);
}

void SymbolTable::visit(const VisitSymbol& visit) const {
  for (std::size_t i = 0; i < size_; ++i) visit(i, at(i));
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

SourceFiles::SourceFiles(const SymbolTable& symtab) {
  symtab.visit([&](std::size_t i, const TableSymbol& symbol) {
    if (symbol.binding != STB_LOCAL) return;
    if (symbol.type == STT_FILE) files_.push_back(i);
    if (symbol.type == STT_FUNC) functions_.push_back({symbol.value, symbol.size, i});
  });
  std::sort(functions_.begin(), functions_.end(),
            [](const Function& a, const Function& b) { return a.address < b.address; });
}

std::optional<std::size_t> SourceFiles::of_symbol(std::size_t index) const {
  const auto next = std::upper_bound(files_.begin(), files_.end(), index);
  if (next == files_.begin()) return std::nullopt;
  return *(next - 1);
}

std::optional<std::size_t> SourceFiles::of_address(Address address) const {
  const auto next =
      std::upper_bound(functions_.begin(), functions_.end(), address,
                       [](Address at, const Function& function) { return at < function.address; });
  if (next == functions_.begin()) return std::nullopt;
  const Function& before = *(next - 1);
  if (address - before.address >= before.size) return std::nullopt;
  return of_symbol(before.index);
}

}  // namespace vitrine::elf
