// The symbols of operands, as an ELF file has them (docs/formats/sdt.md, "Evaluation").
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "elf/relocations.hpp"
#include "elf/symbol_table.hpp"
#include "probe/argument.hpp"

namespace vitrine::probe {

/// The symbols of a file, read when the first is asked for. The references that it is given must
/// outlive it.
class FileSymbols {
 public:
  FileSymbols(Memory& file, const elf::File& elf) : file_(file), elf_(elf) {}
  FileSymbols(const FileSymbols&) = delete;
  FileSymbols& operator=(const FileSymbols&) = delete;

  /// The separate debug file of the file: asked after its own .symtab.
  void add_debug_file(Memory& file, const elf::File& elf);

  /// What symbols mean in the arguments of one site: of several static variables of one name, the
  /// one in the source file of the function at the site. Must not outlive this.
  class AtSite final : public OperandSymbols {
   public:
    AtSite(FileSymbols& symbols, Address site) : symbols_(symbols), site_(site) {}
    tl::expected<Address, ArgumentError> address(std::string_view name) override;
    tl::expected<Address, ArgumentError> got_slot(std::string_view name) override;
    tl::expected<std::int64_t, ArgumentError> thread_offset(std::string_view name) override;

   private:
    FileSymbols& symbols_;
    Address site_;
  };
  AtSite at(Address site) { return {*this, site}; }

 private:
  struct Table {
    elf::SymbolTable symbols;
    std::optional<elf::SourceFiles> sources;  ///< of a .symtab
  };
  using Found = tl::expected<elf::TableSymbol, ArgumentError>;

  void read_tables();
  void add_table(Memory& file, const elf::File& elf, std::uint32_t type);
  Found find(std::string_view name, Address site);
  static Found choose(const Table& table, const std::vector<std::size_t>& candidates,
                      std::string_view name, Address site);
  const elf::GlobalOffsetTable& offset_table();

  Memory& file_;
  const elf::File& elf_;
  std::vector<std::pair<Memory*, const elf::File*>> debug_files_;
  bool read_ = false;
  std::vector<Table> tables_;  ///< in the order they are asked
  std::optional<elf::GlobalOffsetTable> offset_table_;
};

}  // namespace vitrine::probe
