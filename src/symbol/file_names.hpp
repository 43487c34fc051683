// FileNames: names, files and lines of a file's addresses, from all that is known of it. This is
// what runs in a worker.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "file/file_memory.hpp"
#include "symbol/dwarf_info.hpp"
#include "symbol/function_symbols.hpp"
#include "symbol/symboliser.hpp"

namespace vitrine::symbol {

class FileNames {
 public:
  /// `debug`: its debug file; none: an empty descriptor. `with_dwarf`: else symbol tables alone.
  FileNames(FileDescriptor file, FileDescriptor debug, bool with_dwarf, const Limits& limits);

  Frames find(Address address);

  /// Why less is known than there could be; empty: nothing is missing.
  [[nodiscard]] std::string problem() const;

 private:
  void take(FileDescriptor file, bool with_dwarf);
  void finish(Frame& frame) const;

  Limits limits_;
  struct Source {
    std::unique_ptr<file::FileMemory> memory;
    elf::File elf;
  };
  std::vector<Source> sources_;
  std::vector<FunctionSymbols> symbols_;  ///< asked in this order
  std::unique_ptr<DwarfInfo> dwarf_;
  std::string problem_;
};

}  // namespace vitrine::symbol
