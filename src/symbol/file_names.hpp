// FileNames: names, files and lines of a file's addresses, from all that is known of it. This is
// what runs in a worker.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sandbox/files.hpp"
#include "symbol/debug_file.hpp"
#include "symbol/dwarf.hpp"
#include "symbol/function_symbols.hpp"
#include "symbol/symboliser.hpp"

namespace vitrine::symbol {

class FileNames {
 public:
  /// `debug`: where its debug file is looked for. `with_dwarf`: else symbol tables alone.
  FileNames(FileDescriptor file, const DebugSearch& debug, bool with_dwarf, const Limits& limits);

  Frames find(Address address, Place place = Place::address);

  /// Why less is known than there could be; empty: nothing is missing.
  [[nodiscard]] std::string problem() const;

 private:
  void take(std::unique_ptr<file::FileMemory> file, elf::File elf, bool with_dwarf);
  void finish(Frame& frame) const;
  [[nodiscard]] std::optional<Address> address_of(std::uint64_t file_offset) const;

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
