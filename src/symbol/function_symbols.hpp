// MiniDebugInfo: the symbol table that Fedora and others leave in stripped files, as a small ELF
// file packed with xz in a section of its own, .gnu_debugdata.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/memory.hpp"
#include "elf/symbol_table.hpp"

namespace vitrine::symbol {

// Intervals: which of many address ranges, that may nest and overlap, an address belongs to.

class Intervals {
 public:
  /// [start, end) belongs to `value`, where no other has a higher priority. Of equal ones the one
  /// that begins last has it, then the one added last.
  void add(Address start, Address end, std::uint32_t value, std::uint64_t priority);

  /// To be called once, after everything has been added.
  void build();

  [[nodiscard]] std::optional<std::uint32_t> find(Address address) const;
  [[nodiscard]] std::size_t size() const { return added_.size() + pieces_.size(); }

 private:
  struct Added {
    Address start = 0, end = 0;
    std::uint64_t priority = 0;
    std::uint32_t value = 0;
  };
  struct Piece {
    Address start = 0, end = 0;
    std::uint32_t value = 0;
  };
  std::vector<Added> added_;   ///< empty once built
  std::vector<Piece> pieces_;  ///< disjoint, ascending
};

// FunctionSymbols: the functions of one symbol table of a file, by address.

class FunctionSymbols {
 public:
  struct Found {
    std::string_view name;  ///< as the table spells it, without a version; lives as long as it
    Address start = 0;
  };

  /// Of the table of `type` (SHT_SYMTAB, SHT_DYNSYM). Errors: as elf::SymbolTable::read.
  static Result<FunctionSymbols> read(Memory& file, const elf::File& elf, std::uint32_t type);

  /// The innermost function around an address. One without a size reaches to the next symbol.
  [[nodiscard]] std::optional<Found> find(Address address) const;

 private:
  explicit FunctionSymbols(elf::SymbolTable table) : table_(std::move(table)) {}

  elf::SymbolTable table_;
  Intervals functions_;  ///< indexes of table_
};

/// Its functions. Errors: not_found (the file has none), malformed, limit.
Result<FunctionSymbols> mini_debug_symbols(Memory& file, const elf::File& elf);

}  // namespace vitrine::symbol
