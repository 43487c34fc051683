// Relocations of a module: dynamic ones, those of thread-local variables, and the global offset
// table.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.hpp"
#include "elf/file.hpp"
#include "elf/image.hpp"
#include "elf/symbol_table.hpp"
#include "elf/symbols.hpp"

namespace vitrine::elf {

// Dynamic relocations of a module.

struct Relocation {
  Address where = 0;         ///< runtime address of the words it fills
  std::uint32_t type = 0;    ///< R_X86_64_*, R_AARCH64_*
  std::uint32_t symbol = 0;  ///< dynamic symbol index; 0: none
  std::int64_t addend = 0;

  bool operator==(const Relocation&) const = default;
};

/// The relocations of the given types, in DT_RELA and DT_JMPREL (ld puts TLS descriptors into
/// either), whose target lies within the module. Errors: malformed (unreadable), limit (more than
/// limits::relocations).
Result<std::vector<Relocation>> find_relocations(Memory& memory, const Image& image,
                                                 const Dynamic& dynamic,
                                                 std::span<const std::uint32_t> types);

// The relocations through which a module reaches a thread-local variable: they show its access
// model (docs/formats/tls.md, "Access models").

/// R_* of one machine, in the order in which readers ask them.
struct TlsRelocationTypes {
  std::uint32_t descriptor;  ///< TLSDESC
  std::uint32_t module_id;   ///< GD; the word behind it has the offset
  std::uint32_t tp_offset;   ///< IE
};

/// `machine`: EM_X86_64 or EM_AARCH64.
TlsRelocationTypes tls_relocation_types(std::uint16_t machine);

/// Those of them that lead to the variable `symbol`, which the module itself defines. Errors: as
/// find_relocations.
Result<std::vector<Relocation>> tls_relocations(Memory& memory, const Image& image,
                                                const Dynamic& dynamic,
                                                const TlsRelocationTypes& types,
                                                const Symbol& symbol);

// The global offset table of a file: the words in which run-time addresses of symbols are put.

/// Words as the file has them, by its dynamic relocations and by what is in the words already.
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

// The relocations of a file, as what they write into a word: those that the dynamic linker applies
// to what is loaded, and those that a linker applies to the sections of a relocatable file.

struct AddressRange {
  Address begin = 0, end = 0;
};

/// A word that the dynamic linker writes.
struct DynamicRelocation {
  Address where = 0;
  std::uint32_t type = 0;  ///< R_*; of RELR: the machine's RELATIVE
  /// What it writes, at a load base of 0; nullopt: another file decides, or the type is not known.
  std::optional<std::uint64_t> value;
};

struct DynamicRelocations {
  std::vector<DynamicRelocation> relocations;
  std::vector<std::string> problems;  ///< why these may not be all; each a sentence
};

/// The dynamic relocations (RELA, REL, RELR) of words that begin within `ranges`. By PT_DYNAMIC:
/// section headers are not needed. At most limits::relocations are looked at.
DynamicRelocations dynamic_relocations(Memory& file, const File& elf,
                                       std::span<const AddressRange> ranges);

/// A relocation of a section.
struct SectionRelocation {
  std::uint64_t offset = 0;  ///< of what it changes, in the section
  std::uint32_t type = 0;    ///< R_*
  std::string symbol;        ///< empty: a section's, or none
  std::int64_t addend = 0;   ///< 0 where the word itself has it (REL)
};

/// The relocations of some sections of a relocatable file, by section and offset, as far as they can
/// be read: at most limits::relocations.
std::map<std::size_t, std::vector<SectionRelocation>> section_relocations(
    Memory& file, const File& elf, std::span<const std::size_t> sections);

/// "R_X86_64_PC64": the few types that fill whole words, else "type 99".
std::string relocation_name(std::uint16_t machine, std::uint32_t type);

}  // namespace vitrine::elf
