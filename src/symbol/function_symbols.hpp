// FunctionSymbols: the functions of one symbol table of a file, by address.
#pragma once

#include <optional>
#include <string_view>

#include "elf/symbol_table.hpp"
#include "symbol/intervals.hpp"

namespace vitrine::symbol {

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

}  // namespace vitrine::symbol
