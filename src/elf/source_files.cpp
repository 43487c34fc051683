#include "elf/source_files.hpp"

#include <elf.h>

#include <algorithm>

namespace vitrine::elf {

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
