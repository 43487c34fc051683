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

/// What names are read from: a file, and its debug file, if it has one.
struct NameSources {
  struct Source {
    std::unique_ptr<sandbox::FileMemory> memory;
    elf::File elf;
  };
  std::vector<Source> files;  ///< empty: the file cannot be read
  std::string problem;        ///< why

  /// `debug`: where the debug file is looked for.
  static NameSources find(FileDescriptor file, const DebugSearch& debug);
  static NameSources find(std::unique_ptr<sandbox::FileMemory> memory, elf::File elf,
                          const DebugSearch& debug);
  [[nodiscard]] std::vector<sandbox::FileIdentity> identities() const;
};

class FileNames {
 public:
  /// Finds the symbol tables.
  FileNames(NameSources sources, const Limits& limits);

  /// One an address. `with_dwarf`: else of symbol tables alone. Debug information is opened when it is first
  /// needed.
  std::vector<Frames> find(std::span<const Address> addresses, bool with_dwarf,
                           Place place = Place::address);

  /// Until it is needed again.
  void close_dwarf();

  /// Why less is known than there could be; empty: nothing is missing.
  [[nodiscard]] std::string problem() const;

 private:
  using Symbol = std::optional<FunctionTable::Found>;
  Frames find_one(Address address, Symbol symbol, Frames frames, Place place);
  void find_tables();
  UnnamedCode& unnamed();
  void open_dwarf();
  void drop_go_mark(std::string& name) const;
  void finish(Frame& frame) const;
  [[nodiscard]] std::optional<Address> address_of(std::uint64_t file_offset) const;
  [[nodiscard]] std::vector<Symbol> find_symbols(std::span<const Address> addresses);
  [[nodiscard]] Symbol go_function_at(Address address) const;

  Limits limits_;
  std::vector<NameSources::Source> sources_;
  std::vector<FunctionTable> symbols_;           ///< asked in this order
  std::map<Address, std::string> go_functions_;  ///< of a Go program without a .symtab, by start
  std::unique_ptr<DwarfInfo> dwarf_;
  bool is_dwarf_open_ = false;            ///< or cannot be opened
  bool is_go_ = false;                    ///< a file of Go
  std::unique_ptr<UnnamedCode> unnamed_;  ///< null: none was asked for
  std::string problem_, dwarf_problem_, table_problem_;
};

}  // namespace vitrine::symbol
