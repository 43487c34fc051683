// Which source file local symbols are from: in .symtab they follow the STT_FILE symbol of theirs.
#pragma once

#include <optional>
#include <vector>

#include "elf/symbol_table.hpp"

namespace vitrine::elf {

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
