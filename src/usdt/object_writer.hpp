// Building sections: the bytes of a value, at the end of others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/result.hpp"
#include "usdt/machine.hpp"
#include "usdt/object_file.hpp"

namespace vitrine::usdt {

template <class T>
void append(std::vector<std::byte>& bytes, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto raw = std::as_bytes(std::span(&value, 1));
  bytes.insert(bytes.end(), raw.begin(), raw.end());
}

// The notes by which objects declare what processor features their code is made for.

/// The bits that every object of a program must claim for the program to have them: IBT and SHSTK
/// (x86), BTI and PAC (aarch64). Errors: malformed.
Result<std::uint32_t> feature_bits(const ObjectFile& object);

/// A .note.gnu.property that claims `bits`.
std::vector<std::byte> property_note(const ObjectMachine& machine, std::uint32_t bits);

// Puts a relocatable object file (ET_REL) together from sections and symbols.

struct NewSection {
  std::string name;
  std::uint32_t type = 0;       ///< SHT_*
  std::uint64_t flags = 0;      ///< SHF_*
  std::uint32_t alignment = 1;  ///< bytes
  std::vector<std::byte> content;
};

struct DefinedSymbol {
  std::string name;
  std::uint32_t section = 0;    ///< 0: undefined
  std::uint64_t value = 0;      ///< offset in the section
  std::uint64_t size = 0;       ///< bytes
  std::uint8_t type = 0;        ///< STT_*
  std::uint8_t binding = 0;     ///< STB_*
  std::uint8_t visibility = 0;  ///< STV_*
};

class ObjectWriter {
 public:
  explicit ObjectWriter(const ObjectMachine& machine) : machine_(machine) {}

  /// Returns its index.
  std::uint32_t add(NewSection section);

  /// Returns a handle for relocate() and add_group().
  std::uint32_t add(DefinedSymbol symbol);

  /// A COMDAT group, of which a link keeps the first one of its symbol. Sections are put into it by
  /// add_to_group().
  std::uint32_t add_group(std::uint32_t symbol);
  void add_to_group(std::uint32_t group, std::uint32_t section);

  void set_content(std::uint32_t section, std::vector<std::byte> content);

  /// Gives the symbol a section once there is one.
  void define(std::uint32_t symbol, std::uint32_t section);

  /// A relocation. Where the machine keeps addends in the words, the section's content has it.
  void relocate(std::uint32_t section, std::uint64_t offset, std::uint32_t type,
                std::uint32_t symbol, std::int64_t addend = 0);

  /// The file. Its OS/ABI is GNU's, without which linkers ignore SHF_GNU_RETAIN.
  /// Errors: limit (more sections than 16 bits number).
  Result<std::vector<std::byte>> finish();

 private:
  struct Relocation {
    std::uint64_t offset;
    std::uint32_t type, symbol;
    std::int64_t addend;
  };
  struct Section {
    NewSection section;
    std::uint32_t link = 0, info = 0, entry_size = 0;
    std::vector<Relocation> relocations;
    bool group = false;
  };

  void add_relocation_sections(const std::vector<std::uint32_t>& index_of);
  template <class Elf>
  std::vector<std::byte> relocation_entries(const Section& section,
                                            const std::vector<std::uint32_t>& index_of) const;
  template <class Elf>
  std::vector<std::byte> write(const std::vector<std::uint32_t>& order);
  std::uint32_t name(const std::string& text);

  const ObjectMachine& machine_;
  std::vector<Section> sections_{{}};  // the first is the null section
  std::vector<DefinedSymbol> symbols_;
  std::string names_ = std::string(1, '\0');
};

}  // namespace vitrine::usdt
