// Relocatable object files: reading, writing, and refusing what is not safe to rewrite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.hpp"
#include "base/result.hpp"
#include "elf/file.hpp"
#include "usdt/machine.hpp"

namespace vitrine::usdt {

// Reads a file whole into memory.

struct InputFile {
  FileDescriptor descriptor;
  std::uint64_t size = 0;  ///< bytes, when it was opened
};

/// Errors: not_found, not_permitted, usage (no regular file: a directory, a pipe), limit
/// (two gigabytes), failed.
Result<InputFile> open_input(const std::string& path);

/// From its start; shorter, if it has become shorter. Messages speak of "it". Errors: failed.
Result<std::vector<std::byte>> read_whole(const InputFile& file);

// What the readers of object files share: numbers at offsets, and how a broken file is reported.

/// The caller has checked that the bytes are there.
template <class T>
T at(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

inline tl::unexpected<Error> malformed(std::string message) {
  return fail(ErrorCode::malformed, std::move(message),
              "recompile it; if that does not help, the tool that wrote it is at fault");
}

// A relocatable object file (ET_REL) in memory, every part of it checked before anyone uses it.

struct Symbol {
  std::string_view name;
  std::uint64_t value = 0;    ///< defined: offset in its section
  std::uint64_t size = 0;     ///< bytes
  std::uint32_t section = 0;  ///< index; 0: undefined, or in no section
  std::uint8_t type = 0;      ///< STT_*
  std::uint8_t binding = 0;   ///< STB_*
};

/// One SHT_REL or SHT_RELA section.
struct RelocationTable {
  std::uint32_t target = 0;  ///< index of the section that it is about
  bool addends = false;      ///< SHT_RELA
  std::size_t offset = 0;    ///< in the file
  std::size_t count = 0;
};

struct Relocation {
  std::uint64_t offset = 0;  ///< in the target section
  std::uint32_t type = 0;
  std::uint32_t symbol = 0;  ///< index
  std::int64_t addend = 0;   ///< from the entry, or (SHT_REL) from the four bytes at `offset`
  std::size_t type_at = 0;   ///< where in the file the entry holds its type
};

class ObjectFile {
 public:
  /// Checks `bytes`, which must outlive the object. Messages speak of "it". Errors: malformed (with
  /// the section), unsupported (an archive, another machine, …), limit.
  static Result<ObjectFile> read(std::span<const std::byte> bytes);

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] const ObjectMachine& machine() const { return *machine_; }
  [[nodiscard]] const std::vector<elf::Section>& sections() const { return elf_.sections; }
  [[nodiscard]] const std::vector<Symbol>& symbols() const { return symbols_; }
  [[nodiscard]] const std::vector<RelocationTable>& relocations() const { return relocations_; }
  [[nodiscard]] std::uint32_t symbol_table() const { return symbol_table_; }  ///< 0: none
  [[nodiscard]] std::uint32_t wide_indices() const { return wide_indices_; }  ///< SHNDX; 0: none

  /// ".text (section 1)": for messages.
  [[nodiscard]] std::string describe(std::uint32_t section) const;
  [[nodiscard]] std::string_view section_name(std::uint32_t section) const;

  /// Empty for SHT_NOBITS.
  [[nodiscard]] std::span<const std::byte> content(std::uint32_t section) const;

  [[nodiscard]] Relocation relocation(const RelocationTable& table, std::size_t i) const;

 private:
  Result<void> check_sections();
  Result<void> check_overlaps() const;
  Result<void> check_groups() const;
  Result<void> find_tables();
  Result<void> read_symbols();
  Result<void> check_relocations();

  std::span<const std::byte> bytes_;
  elf::File elf_;
  const ObjectMachine* machine_ = nullptr;
  std::vector<Symbol> symbols_;
  std::vector<RelocationTable> relocations_;
  std::uint32_t symbol_table_ = 0;
  std::uint32_t wide_indices_ = 0;
};

}  // namespace vitrine::usdt
