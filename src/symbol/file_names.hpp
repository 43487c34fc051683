// FileNames: names, source files and lines of a file's addresses, inlined functions included, from
// DWARF and symbol tables: from all that is known of it. This is what runs in a worker.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_descriptor.hpp"
#include "elf/file.hpp"
#include "sandbox/files.hpp"
#include "symbol/debug_file.hpp"
#include "symbol/dwarf_info.hpp"
#include "symbol/function_symbols.hpp"
#include "symbol/symboliser.hpp"
#include "symbol/unnamed_code.hpp"

namespace vitrine::symbol {

class FileNames {
 public:
  /// `debug`: where its debug file is looked for. `with_dwarf`: else symbol tables alone.
  FileNames(FileDescriptor file, const DebugSearch& debug, bool with_dwarf, const Limits& limits);

  /// One an address.
  std::vector<Frames> find(std::span<const Address> addresses, Place place = Place::address);

  /// Why less is known than there could be; empty: nothing is missing.
  [[nodiscard]] std::string problem() const;

 private:
  Frames find_one(Address address, Place place);
  void take(std::unique_ptr<sandbox::FileMemory> file, elf::File elf, bool with_dwarf);
  void finish(Frame& frame) const;
  [[nodiscard]] std::optional<Address> address_of(std::uint64_t file_offset) const;
  [[nodiscard]] std::optional<FunctionSymbols::Found> symbol_at(Address address) const;
  [[nodiscard]] std::optional<FunctionSymbols::Found> go_function_at(Address address) const;

  Limits limits_;
  struct Source {
    std::unique_ptr<sandbox::FileMemory> memory;
    elf::File elf;
  };
  std::vector<Source> sources_;
  std::vector<FunctionSymbols> symbols_;         ///< asked in this order
  std::map<Address, std::string> go_functions_;  ///< of a Go program without a .symtab, by start
  std::unique_ptr<DwarfInfo> dwarf_;
  UnnamedCode unnamed_;
  std::string problem_;
};

}  // namespace vitrine::symbol
