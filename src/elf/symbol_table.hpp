// Symbol tables of ELF files, of any class and byte order, and the source files of local
// symbols.
#pragma once

#include <elf.h>

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "elf/file.hpp"

namespace vitrine::elf {

// A symbol table of an ELF file, of any class and byte order: every definition of a name in it.

/// A symbol as its table has it (STT_*, STB_*, SHN_*, STV_*).
struct TableSymbol {
  std::uint32_t name = 0;  ///< offset in the table of strings
  std::uint64_t value = 0;
  std::uint64_t size = 0;
  std::uint8_t type = 0;
  std::uint8_t binding = 0;
  std::uint16_t section = 0;
  std::uint8_t visibility = 0;
};

/// Whether it is a function that its file defines.
constexpr bool is_function(const TableSymbol& symbol) {
  return symbol.section != SHN_UNDEF && (symbol.type == STT_FUNC || symbol.type == STT_GNU_IFUNC);
}

/// The size of an entry.
std::size_t symbol_bytes(const Encoding& encoding);

/// Of the bytes of one entry.
TableSymbol decode_symbol(const Encoding& encoding, const std::byte* entry);

/// Called as `visit(index, symbol)`.
using VisitSymbol = std::function<void(std::size_t, const TableSymbol&)>;

/// Visits the symbols of a table in its order, at most `most` of them; no more of it is in memory
/// than a chunk. Errors: those of reading the file. What there is before the place that cannot be
/// read has been visited then.
Result<void> visit_symbols(Memory& file, const File& elf, const Section& table, std::uint64_t most,
                           const VisitSymbol& visit);

/// Where a table and the strings of its names are.
struct SymbolSections {
  const Section* symbols = nullptr;
  const Section* strings = nullptr;
};

/// Of the first table of `type` (SHT_SYMTAB, SHT_DYNSYM). Errors: not_found (the file has none), malformed, limit
/// (more than limits::file_symbols, or strings beyond limits::symbol_name_table).
Result<SymbolSections> find_symbol_sections(const File& elf, std::uint32_t type);

class SymbolTable {
 public:
  /// Reads the first table of `type`, with its strings. Errors: as find_symbol_sections(); malformed.
  static Result<SymbolTable> read(Memory& file, const File& elf, std::uint32_t type);

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] TableSymbol at(std::size_t index) const;  ///< `index` below size()
  void visit(const VisitSymbol& visit) const;             ///< all, in order

  /// Empty when the name is outside of the table of strings, or not terminated there.
  [[nodiscard]] std::string_view name(const TableSymbol& symbol) const;

  /// The indexes of all symbols of this name, ascending. The first call makes an index: that is
  /// not for two threads at once.
  [[nodiscard]] std::vector<std::size_t> find(std::string_view name) const;

 private:
  struct Entry {
    std::uint32_t hash = 0, index = 0;
    auto operator<=>(const Entry&) const = default;
  };

  void make_index() const;

  Encoding encoding_;
  std::vector<std::byte> symbols_, strings_;
  std::size_t entry_bytes_ = 0, size_ = 0;
  mutable std::vector<Entry> index_;  ///< ascending; empty: not made yet
};

// Which source file local symbols are from: in .symtab they follow the STT_FILE symbol of theirs.

class SourceFiles {
 public:
  explicit SourceFiles(const SymbolTable& symtab);

  /// The index of the STT_FILE symbol that the local symbol `index` belongs to; nullopt: none.
  [[nodiscard]] std::optional<std::size_t> of_symbol(std::size_t index) const;

  /// The same of the local function around an address; nullopt where there is none.
  [[nodiscard]] std::optional<std::size_t> of_address(Address address) const;

 private:
  struct Function {
    Address address = 0;
    std::uint64_t size = 0;
    std::size_t index = 0;
  };
  std::vector<std::size_t> files_;   ///< ascending
  std::vector<Function> functions_;  ///< local ones, ascending
};

}  // namespace vitrine::elf
