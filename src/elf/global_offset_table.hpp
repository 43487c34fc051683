// The global offset table of a file: the words in which run-time addresses of symbols are put.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/limits.hpp"
#include "elf/symbol_table.hpp"

namespace vitrine::elf {

/// Words as the file tells of them, by its dynamic relocations and by what is in the words already.
/// For x86-64, i386, aarch64 and arm; of other machines nothing is found.
class GlobalOffsetTable {
 public:
  /// What is malformed or beyond limits::relocations counts as absent.
  GlobalOffsetTable(Memory& file, const File& elf);

  /// The word that the dynamic linker fills with the address of `name`, wherever that is defined.
  [[nodiscard]] std::optional<Address> slot_of(std::string_view name) const;

  /// The word that has the run-time address of `address`, of this file.
  [[nodiscard]] std::optional<Address> slot_of(Address address) const;

 private:
  void read_relocations(Memory& file, const File& elf, const Section& section,
                        const SymbolTable* symbols);
  void read_words(Memory& file, const File& elf, const Section& section);

  /// Up to `left_` entries: sections of a file may all claim the same bytes.
  [[nodiscard]] std::vector<std::byte> take(Memory& file, const File& elf, const Section& section,
                                            std::size_t entry);

  std::size_t left_ = limits::relocations;
  std::map<std::string, Address, std::less<>> by_name_;
  std::map<Address, Address> by_address_;
};

}  // namespace vitrine::elf
