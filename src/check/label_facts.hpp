// What a file tells of the label variables that it defines.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "elf/file.hpp"
#include "elf/image.hpp"
#include "elf/symbols.hpp"

namespace vitrine::check {

/// How code of the file reaches a thread-local variable of it.
enum class Access : std::uint8_t { descriptor, general_dynamic, initial_exec };
std::string_view name(Access access);  ///< "TLSDESC", "GD", "IE"

struct SymbolFacts {
  std::optional<elf::Symbol> exported;  ///< defined in .dynsym
  std::optional<elf::Symbol> inside;    ///< defined in .symtab, whether or not it is exported

  [[nodiscard]] bool there() const { return exported || inside; }
  [[nodiscard]] const elf::Symbol* any() const {
    return exported ? &*exported : (inside ? &*inside : nullptr);
  }
};

struct SlotFacts : SymbolFacts {
  std::string_view name;
  std::uint64_t bytes = 8;       ///< that it must have
  std::vector<Access> accesses;  ///< each once
};

/// custom_labels_abi_version.
struct VersionFacts : SymbolFacts {
  std::optional<std::uint32_t> value;        ///< that it has when the file has been loaded
  std::optional<std::uint64_t> file_offset;  ///< of its bytes; none: .bss
  bool writable = false;                     ///< when the program runs
  bool relocated = false;                    ///< a relocation writes it: the file has not its value
};

struct LabelFacts {
  std::string unsupported;  ///< not empty: no platform of these formats, and why
  std::string broken;       ///< not empty: why its tables of symbols cannot be used
  bool exports = false;     ///< it has a table of exported symbols
  bool symtab = false;      ///< it has .symtab: not stripped
  std::optional<elf::TlsSegment> block;
  VersionFacts version;
  SlotFacts v0, v1, thread_context;

  /// The slot of the version of the custom-labels ABI that the file follows, or seems to.
  [[nodiscard]] const SlotFacts& slot() const { return is_v0() ? v0 : v1; }
  [[nodiscard]] bool is_v0() const;
  bool prefer_v0 = false;        ///< when it has neither slot
  std::optional<bool> asked_v0;  ///< which version the user asks for, whatever is there
};

LabelFacts read_label_facts(Memory& file, const elf::File& elf);

}  // namespace vitrine::check
