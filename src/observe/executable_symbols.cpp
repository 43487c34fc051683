#include "observe/executable_symbols.hpp"

namespace vitrine::observe {

Result<std::vector<std::optional<elf::Symbol>>> ExecutableSymbols::find(
    file::FileMemory& file, std::span<const std::string_view> names) {
  const auto known = known_.find(file.identity());
  if (known != known_.end()) return known->second;
  return known_.emplace(file.identity(), elf::find_file_symbols(file, names)).first->second;
}

}  // namespace vitrine::observe
