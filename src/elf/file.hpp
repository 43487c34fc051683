// An ELF file of any class and byte order: its header, segments and sections, checked.
//
// Where image.hpp reads what lies in memory, this reads what lies in a file: addresses of the
// Memory are offsets. Counts are bounded by base/limits.hpp before they are used.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory.hpp"
#include "base/result.hpp"
#include "elf/encoding.hpp"

namespace vitrine::elf {

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
  std::vector<Section> sections;      ///< empty: the file has none, or `problems` says why
  std::string section_names;          ///< the bytes of .shstrtab
  std::vector<std::string> problems;  ///< what of the headers could not be used; each a sentence

  /// Empty when the name is outside of the table.
  [[nodiscard]] std::string_view name(const Section& section) const;

  /// The first section of this name; null when there is none.
  [[nodiscard]] const Section* find(std::string_view name) const;
};

/// Reads the headers. What is wrong with segments or sections is told in `problems`; the rest is
/// there. Errors: malformed (not an ELF file, or truncated within its header).
Result<File> read_file(Memory& file);

/// The file offset of `size` bytes at an address of the file's own address space, where one segment
/// with all of `flags` (PF_*) has them in the file.
std::optional<std::uint64_t> file_offset(std::span<const Segment> segments, Address address,
                                         std::uint64_t size, std::uint32_t flags);

}  // namespace vitrine::elf
