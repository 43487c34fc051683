#include "symbol/assembly_lines.hpp"

#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.hpp"
#include "base/memory.hpp"
#include "elf/cursor.hpp"
#include "symbol/dwarf_unit.hpp"

namespace vitrine::symbol {
namespace {

using Bytes = std::span<const std::byte>;
using elf::Cursor;

constexpr std::size_t max_lines = 8U << 20;    // libc's has 1.3 MiB
constexpr std::size_t max_strings = 1U << 20;  // of all units
// An assembler's has a few KiB. It is read anew for each address, and a byte of it may be a row, for which libdw takes
// 90: of 64 KiB that is 14 ms and 6 MiB.
constexpr std::size_t max_table = 64U << 10;

/// A line table of DWARF 5, 32 bits (DWARF 5, 6.2.4), as far as it is needed here.
struct LineTable {
  Bytes whole;
  Bytes header;   ///< behind its length
  Bytes program;  ///< its instructions
};

/// The next one of the section; without a header: it is of another kind. Nothing: there is none any more.
std::optional<LineTable> next_table(Cursor& section) {
  const auto size = section.number<std::uint32_t>();
  constexpr std::uint32_t reserved = 0xfffffff0;
  if (section.failed() || size >= reserved) return std::nullopt;
  const Bytes content = section.take(size);
  if (section.failed()) return std::nullopt;
  LineTable table;
  table.whole = {content.data() - sizeof size, content.size() + sizeof size};
  Cursor at(content);
  const auto version = at.number<std::uint16_t>();
  const std::uint8_t address_bytes = at.u8(), segment_bytes = at.u8();
  const auto header_bytes = at.number<std::uint32_t>();
  if (version != 5 || address_bytes != sizeof(Address) || segment_bytes != 0) return table;
  const Bytes header = at.take(header_bytes);
  if (at.failed()) return table;
  table.header = header;
  table.program = at.rest();
  return table;
}

/// Whether its first instruction that sets an address sets this one. Assemblers begin with it.
bool begins_with(const LineTable& table, Address start) {
  std::array<std::byte, 3 + sizeof start> instruction{std::byte{0}, std::byte{1 + sizeof start},
                                                      std::byte{DW_LNE_set_address}};
  std::memcpy(instruction.data() + 3, &start, sizeof start);
  return table.program.size() >= instruction.size() &&
         std::ranges::equal(table.program.first(instruction.size()), instruction);
}

/// Its first directory, that of the compilation, with the form of it: bytes of an attribute. Empty: it has none, or
/// one in another form.
Bytes directory_of(const LineTable& table, std::uint8_t& form) {
  Cursor at(table.header);
  static_cast<void>(at.take(5));  // lengths, and what lines begin with
  const std::uint8_t kinds = at.u8();
  static_cast<void>(at.take(kinds == 0 ? 0 : kinds - 1));
  const std::uint8_t formats = at.u8();
  const std::uint64_t type = at.uleb(), found = at.uleb();
  if (formats != 1 || type != DW_LNCT_path || at.uleb() == 0) return {};
  form = static_cast<std::uint8_t>(found);
  if (found == DW_FORM_line_strp) return at.take(sizeof(std::uint32_t));
  if (found != DW_FORM_string) return {};
  const Bytes rest = at.rest();
  const auto end = std::ranges::find(rest, std::byte{0});
  if (end == rest.end()) return {};
  return rest.first(static_cast<std::size_t>(end - rest.begin()) + 1);
}

/// A file of debug information, in memory, with one unit that has nothing but a line table: for libdw, which reads a
/// line table only through its unit.
class FileOfOneUnit {
 public:
  FileOfOneUnit(const LineTable& table, Bytes strings, std::uint16_t machine) {
    std::uint8_t form = 0;
    const Bytes directory = directory_of(table, form);
    constexpr std::uint8_t code = 1;
    std::vector<std::byte> kinds, unit;
    for (const unsigned one : {unsigned{code}, unsigned{DW_TAG_compile_unit}, 0U,
                               unsigned{DW_AT_stmt_list}, unsigned{DW_FORM_sec_offset}})
      kinds.push_back(std::byte(one));
    if (!directory.empty())
      for (const unsigned one : {unsigned{DW_AT_comp_dir}, unsigned{form}})
        kinds.push_back(std::byte(one));
    kinds.resize(kinds.size() + 3);
    const std::uint16_t version = 5;
    const auto size = static_cast<std::uint32_t>(header_bytes - 4 + 1 + 4 + directory.size());
    put(unit, size);
    put(unit, version);
    put(unit, static_cast<std::uint8_t>(DW_UT_compile));
    put(unit, static_cast<std::uint8_t>(sizeof(Address)));
    put(unit, std::uint32_t{0});  // in .debug_abbrev
    put(unit, code);
    put(unit, std::uint32_t{0});  // in .debug_line
    unit.insert(unit.end(), directory.begin(), directory.end());
    lay_out({{".debug_info", unit},
             {".debug_abbrev", kinds},
             {".debug_line", table.whole},
             {".debug_line_str", strings}},
            machine);
    elf_version(EV_CURRENT);
    elf_.reset(elf_memory(reinterpret_cast<char*>(image_.data()), image_.size()));
    if (elf_ != nullptr) dwarf_.reset(dwarf_begin_elf(elf_.get(), DWARF_C_READ, nullptr));
  }

  Frames find(Address address) {
    Dwarf_Die top{};
    if (dwarf_ == nullptr || dwarf_offdie(dwarf_.get(), header_bytes, &top) == nullptr) return {};
    return DwarfUnit(top).find(address, 1);
  }

 private:
  static constexpr std::size_t header_bytes = 12;  // of a unit

  struct Named {
    const char* name;
    Bytes content;
  };
  struct End {
    void operator()(::Elf* elf) const { elf_end(elf); }
    void operator()(::Dwarf* dwarf) const { dwarf_end(dwarf); }
  };

  template <class T>
  static void put(std::vector<std::byte>& bytes, const T& value) {
    const auto* const from = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), from, from + sizeof value);
  }

  void lay_out(std::initializer_list<Named> sections, std::uint16_t machine) {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = ET_EXEC;
    header.e_machine = machine;
    header.e_version = EV_CURRENT;
    header.e_ehsize = sizeof header;
    header.e_shentsize = sizeof(Elf64_Shdr);
    image_.resize(sizeof header);
    std::vector<Elf64_Shdr> all(1);
    std::string names(1, '\0');
    const auto add = [&](std::size_t name, std::uint32_t type, Bytes content) {
      Elf64_Shdr section{};
      section.sh_name = static_cast<Elf64_Word>(name);
      section.sh_type = type;
      section.sh_offset = image_.size();
      section.sh_size = content.size();
      section.sh_addralign = 1;
      image_.insert(image_.end(), content.begin(), content.end());
      all.push_back(section);
    };
    for (const Named& one : sections) {
      add(names.size(), SHT_PROGBITS, one.content);
      names.append(one.name).push_back('\0');
    }
    const std::size_t own_name = names.size();
    names.append(".shstrtab").push_back('\0');
    add(own_name, SHT_STRTAB, std::as_bytes(std::span(names)));
    image_.resize(align_up(image_.size(), alignof(Elf64_Shdr)));
    header.e_shoff = image_.size();
    header.e_shnum = static_cast<Elf64_Half>(all.size());
    header.e_shstrndx = static_cast<Elf64_Half>(all.size() - 1);
    const Bytes headers = std::as_bytes(std::span(all));
    image_.insert(image_.end(), headers.begin(), headers.end());
    std::memcpy(image_.data(), &header, sizeof header);
  }

  std::vector<std::byte> image_;
  std::unique_ptr<::Elf, End> elf_;
  std::unique_ptr<::Dwarf, End> dwarf_;
};

bool is_assembly(std::string_view file) {
  constexpr std::string_view endings[] = {".S", ".s", ".asm", ".sx"};
  return std::ranges::any_of(endings, [&](std::string_view one) { return file.ends_with(one); });
}

}  // namespace

bool has_assembly_lines(const LineSections& sections, const elf::File& elf) {
  return elf.encoding.wide && !elf.encoding.big_endian &&
         std::endian::native == std::endian::little && sections.lines.size() <= max_lines &&
         sections.strings.size() <= max_strings;
}

Frames find_assembly_line(const LineSections& sections, const elf::File& elf, Address start,
                          Address address) {
  if (!has_assembly_lines(sections, elf)) return {};
  Cursor all(sections.lines);
  for (std::size_t count = 0; count < limits::dwarf_units; ++count) {
    const auto table = next_table(all);
    if (!table) return {};
    if (table->header.empty() || !begins_with(*table, start)) continue;
    if (table->whole.size() > max_table) return {};
    Frames found = FileOfOneUnit(*table, sections.strings, elf.machine).find(address);
    if (found.size() == 1 && is_assembly(found.front().file)) return found;
    return {};
  }
  return {};
}

}  // namespace vitrine::symbol
