// ExecutableSymbols: what the .symtab of executables defines, searched once a file.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "elf/file_symbols.hpp"
#include "file/file_memory.hpp"

namespace vitrine::observe {

/// Many processes run the same few programs, and a large program's table takes tens of
/// milliseconds to search: whoever looks at many processes shares one of these.
class ExecutableSymbols {
 public:
  /// As elf::find_file_symbols. `names` must be the same in each call.
  Result<std::vector<std::optional<elf::Symbol>>> find(file::FileMemory& file,
                                                       std::span<const std::string_view> names);

 private:
  std::map<file::FileIdentity, Result<std::vector<std::optional<elf::Symbol>>>> known_;
};

}  // namespace vitrine::observe
