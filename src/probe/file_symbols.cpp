#include "probe/file_symbols.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "elf/image.hpp"
#include "probe/expression.hpp"

namespace vitrine::probe {
namespace {

tl::unexpected<ArgumentError> unresolved(std::string message) {
  return tl::unexpected<ArgumentError>({ArgumentError::Kind::unresolved, std::move(message)});
}

/// Functions of other files may have a value too: that of the stub which calls them.
bool is_defined(const elf::TableSymbol& symbol) {
  return (symbol.section != SHN_UNDEF || (symbol.type == STT_FUNC && symbol.value != 0)) &&
         symbol.type != STT_FILE && symbol.type != STT_SECTION;
}

std::optional<elf::TlsSegment> tls_segment(const elf::File& elf) {
  constexpr std::uint64_t largest_alignment = 1U << 30;
  for (const elf::Segment& segment : elf.segments) {
    if (segment.type != PT_TLS) continue;
    const std::uint64_t alignment = std::max<std::uint64_t>(segment.alignment, 1);
    if (!std::has_single_bit(alignment) || alignment > largest_alignment) return std::nullopt;
    return elf::TlsSegment{segment.address, segment.memory_size, alignment};
  }
  return std::nullopt;
}

}  // namespace

void FileSymbols::add_debug_file(Memory& file, const elf::File& elf) {
  debug_files_.emplace_back(&file, &elf);
  read_ = false;
}

void FileSymbols::add_table(Memory& file, const elf::File& elf, std::uint32_t type) {
  // Without a table there is nothing to find in it, whatever the reason.
  auto read = elf::SymbolTable::read(file, elf, type);
  if (!read) return;
  Table& table = tables_.emplace_back(Table{std::move(*read), {}});
  if (type == SHT_SYMTAB) table.sources.emplace(table.symbols);
}

void FileSymbols::read_tables() {
  if (read_) return;
  read_ = true;
  tables_.clear();
  add_table(file_, elf_, SHT_SYMTAB);
  for (const auto& [file, elf] : debug_files_) add_table(*file, *elf, SHT_SYMTAB);
  add_table(file_, elf_, SHT_DYNSYM);
}

FileSymbols::Found FileSymbols::find(std::string_view name, Address site) {
  read_tables();
  for (const Table& table : tables_) {
    std::vector<std::size_t> candidates = table.symbols.find(name);
    std::erase_if(candidates, [&](std::size_t i) { return !is_defined(table.symbols.at(i)); });
    if (!candidates.empty()) return choose(table, candidates, name, site);
  }
  if (name.starts_with(".L"))
    return unresolved(
        fmt::format("{} is a compiler-internal label: no symbol table has it", quoted(name)));
  return unresolved(fmt::format("no symbol table of the file defines {}", quoted(name)));
}

FileSymbols::Found FileSymbols::choose(const Table& table,
                                       const std::vector<std::size_t>& candidates,
                                       std::string_view name, Address site) {
  const elf::TableSymbol first = table.symbols.at(candidates.front());
  const auto source = table.sources ? table.sources->of_address(site) : std::nullopt;
  bool alike = true;
  std::optional<elf::TableSymbol> global;
  for (const std::size_t candidate : candidates) {
    const elf::TableSymbol symbol = table.symbols.at(candidate);
    alike = alike && symbol.value == first.value && symbol.type == first.type;
    if (symbol.binding != STB_LOCAL)
      global = symbol;
    else if (source && table.sources->of_symbol(candidate) == source && candidates.size() > 1)
      return symbol;  // its own static variable
  }
  if (alike) return first;
  if (source && global) return *global;
  return unresolved(
      fmt::format("{} symbols have the name {}, and the source file of the probe is unknown",
                  candidates.size(), quoted(name)));
}

const elf::GlobalOffsetTable& FileSymbols::offset_table() {
  if (!offset_table_) offset_table_.emplace(file_, elf_);
  return *offset_table_;
}

tl::expected<Address, ArgumentError> FileSymbols::AtSite::address(std::string_view name) {
  const Found symbol = symbols_.find(name, site_);
  if (!symbol && name == "_GLOBAL_OFFSET_TABLE_")
    if (const auto table = elf::dynamic_value(symbols_.file_, symbols_.elf_, DT_PLTGOT))
      return *table;
  TRY(symbol);
  if (symbol->type == STT_TLS)
    return unresolved(
        fmt::format("{} is thread-local: each thread has its own address", quoted(name)));
  return symbol->value;
}

tl::expected<Address, ArgumentError> FileSymbols::AtSite::got_slot(std::string_view name) {
  const elf::GlobalOffsetTable& table = symbols_.offset_table();
  if (const auto slot = table.slot_of(name)) return *slot;
  auto defined = TRY(address(name));
  if (const auto slot = table.slot_of(defined)) return *slot;
  return unresolved(fmt::format("the global offset table has no word for {}", quoted(name)));
}

tl::expected<std::int64_t, ArgumentError> FileSymbols::AtSite::thread_offset(
    std::string_view name) {
  const elf::TableSymbol symbol = TRY(symbols_.find(name, site_));
  if (symbol.type != STT_TLS)
    return unresolved(fmt::format("{} is not thread-local", quoted(name)));
  const auto tls = tls_segment(symbols_.elf_);
  if (!tls) return unresolved("the file has no thread-local block");
  if (!elf::is_program(symbols_.file_, symbols_.elf_))
    return unresolved(fmt::format(
        "{} is in the thread-local block of a library, whose address is known only after loading",
        quoted(name)));
  switch (symbols_.elf_.machine) {
    case EM_X86_64:
    case EM_386:
      return elf::tls_offset_below(*tls, symbol.value);
    case EM_AARCH64:
      return elf::tls_offset_above(*tls, symbol.value, 16);
    case EM_ARM:
      return elf::tls_offset_above(*tls, symbol.value, 8);
    default:
      return tl::unexpected<ArgumentError>(
          {ArgumentError::Kind::unsupported, "thread-local variables of this machine"});
  }
}

}  // namespace vitrine::probe
