// An ELF file of any class and byte order: its header, segments and sections, checked.
//
// Where image.hpp reads what lies in memory, this reads what lies in a file: addresses of the
// Memory are offsets. Counts are bounded by base/limits.hpp before they are used.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory.hpp"
#include "base/result.hpp"

namespace vitrine::elf {

// Encoding: how an ELF file writes its numbers.

/// Reads numbers of a file of any class and byte order. The caller sees to it that the bytes are
/// there; no alignment is needed.
struct Encoding {
  bool wide = true;         ///< ELFCLASS64: addresses of 8 bytes, else 4
  bool big_endian = false;  ///< ELFDATA2MSB

  [[nodiscard]] std::size_t address_bytes() const { return wide ? 8 : 4; }

  [[nodiscard]] std::uint16_t u16(const std::byte* at) const { return number<std::uint16_t>(at); }
  [[nodiscard]] std::uint32_t u32(const std::byte* at) const { return number<std::uint32_t>(at); }
  [[nodiscard]] std::uint64_t u64(const std::byte* at) const { return number<std::uint64_t>(at); }
  [[nodiscard]] std::uint64_t address(const std::byte* at) const {
    return wide ? u64(at) : u32(at);
  }

  /// Of 1, 2, 4 or 8 bytes, with or without a sign.
  template <class T>
  [[nodiscard]] T number(const std::byte* at) const {
    T value = 0;
    std::memcpy(&value, at, sizeof value);
    if (big_endian == (std::endian::native == std::endian::big)) return value;
    if constexpr (sizeof value == 1) return value;
    if constexpr (sizeof value == 2) return static_cast<T>(__builtin_bswap16(value));
    if constexpr (sizeof value == 4) return static_cast<T>(__builtin_bswap32(value));
    if constexpr (sizeof value == 8) return static_cast<T>(__builtin_bswap64(value));
  }

  bool operator==(const Encoding&) const = default;
};

/// A program header (PT_*, PF_*), in one shape for both classes.
struct Segment {
  std::uint32_t type = 0;
  std::uint32_t flags = 0;
  std::uint64_t offset = 0;       ///< in the file
  Address address = 0;            ///< p_vaddr
  std::uint64_t file_size = 0;    ///< bytes of it in the file
  std::uint64_t memory_size = 0;  ///< bytes of it in memory
  std::uint64_t alignment = 0;    ///< p_align
};

/// A section header (SHT_*, SHF_*), in one shape for both classes.
struct Section {
  std::uint32_t name = 0;  ///< offset in the table of names: see File::name
  std::uint32_t type = 0;
  std::uint64_t flags = 0;
  Address address = 0;
  std::uint64_t offset = 0;  ///< in the file
  std::uint64_t size = 0;
  std::uint32_t link = 0;
  std::uint32_t info = 0;
  std::uint64_t alignment = 0;
  std::uint64_t entry_size = 0;
};

struct File {
  Encoding encoding;
  std::uint16_t type = 0;     ///< ET_*
  std::uint16_t machine = 0;  ///< EM_*
  std::vector<Segment> segments;
  std::vector<Section> sections;      ///< empty: the file has none, or `problems` has the reason
  std::string section_names;          ///< the bytes of .shstrtab
  std::vector<std::string> problems;  ///< what of the headers could not be used; each a sentence

  /// Empty when the name is outside of the table.
  [[nodiscard]] std::string_view name(const Section& section) const;

  /// The first section of this name; null when there is none.
  [[nodiscard]] const Section* find(std::string_view name) const;
};

/// Reads the headers. What is wrong with segments or sections is reported in `problems`; the rest
/// is there. Errors: malformed (not an ELF file, or truncated within its header).
Result<File> read_file(Memory& file);

/// The file offset of `size` bytes at an address of the file's own address space, where one segment
/// with all of `flags` (PF_*) has them in the file.
std::optional<std::uint64_t> file_offset(std::span<const Segment> segments, Address address,
                                         std::uint64_t size, std::uint32_t flags);

// The content of a section of a file.

/// What could be read of a section.
struct SectionBytes {
  std::vector<std::byte> bytes;
  std::string problem;  ///< why that is not all of it; empty: it is
};

/// Reads a section, unpacked if it is compressed (SHF_COMPRESSED, zlib), up to `most` bytes. What a
/// truncated file still has of it is given, with the problem. Errors: malformed (the file has no
/// content for it: SHT_NOBITS; broken compression), unsupported (another compression).
Result<SectionBytes> read_section(Memory& file, const File& elf, const Section& section,
                                  std::uint64_t most);

}  // namespace vitrine::elf
