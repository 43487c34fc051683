#include "symbol/function_symbols.hpp"

#include <elf.h>

#include <algorithm>

namespace vitrine::symbol {
namespace {

/// Where the code around an address ends, by the sections; 0: there is none.
Address end_of_code(const elf::File& elf, Address address) {
  for (const elf::Section& section : elf.sections)
    if ((section.flags & SHF_EXECINSTR) != 0 && address >= section.address &&
        address - section.address < section.size)
      return section.address + section.size;
  return 0;
}

struct Function {
  Address start = 0;
  std::uint64_t size = 0;
  std::uint32_t index = 0;
};

}  // namespace

Result<FunctionSymbols> FunctionSymbols::read(Memory& file, const elf::File& elf,
                                              std::uint32_t type) {
  auto table = TRY(elf::SymbolTable::read(file, elf, type));
  FunctionSymbols symbols(std::move(table));
  const std::uint64_t thumb = elf.machine == EM_ARM ? 1 : 0;  // a mark, not part of the address
  std::vector<Function> functions;
  symbols.table_.visit([&](std::size_t i, const elf::TableSymbol& symbol) {
    if (elf::is_function(symbol))
      functions.push_back({symbol.value & ~thumb, symbol.size, static_cast<std::uint32_t>(i)});
  });
  // Of several names for one address, the one of the largest extent is taken, and of those the last.
  std::stable_sort(functions.begin(), functions.end(), [](const Function& a, const Function& b) {
    return std::pair(a.start, a.size) < std::pair(b.start, b.size);
  });
  for (std::size_t i = 0; i < functions.size(); ++i) {
    const Function& function = functions[i];
    Address end = function.start + function.size;
    if (function.size == 0) {
      const auto next = std::upper_bound(
          functions.begin(), functions.end(), function.start,
          [](Address address, const Function& other) { return address < other.start; });
      end = end_of_code(elf, function.start);
      if (next != functions.end()) end = std::min(end, next->start);
    }
    symbols.functions_.add(function.start, end, function.index, function.start);
  }
  symbols.functions_.build();
  return symbols;
}

std::optional<FunctionSymbols::Found> FunctionSymbols::find(Address address) const {
  const auto index = functions_.find(address);
  if (!index) return std::nullopt;
  const elf::TableSymbol symbol = table_.at(*index);
  // Linkers write versions behind names: "f@@V1".
  const std::string_view spelled = table_.name(symbol);
  const std::string_view name = spelled.substr(0, spelled.find('@'));
  if (name.empty()) return std::nullopt;
  return Found{name, symbol.value};
}

}  // namespace vitrine::symbol
