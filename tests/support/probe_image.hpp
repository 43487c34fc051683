// ProbeImage: an ELF file of any class and byte order, made by hand: one code segment, one data
// segment, and sections. Well-formed until a test patches it.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "elf/file.hpp"

namespace vitrine::test {

struct ImageSection {
  std::string name;
  std::uint32_t type = SHT_PROGBITS;
  std::uint64_t flags = 0;
  std::uint64_t address = 0;
  std::vector<std::byte> bytes;
  std::uint64_t size = 0;  ///< other than 0: instead of the true one
};

class ProbeImage {
 public:
  static constexpr std::uint64_t code_address = 0x41000, code_offset = 0x1000, code_size = 0x1000;
  static constexpr std::uint64_t data_address = 0x53000, data_offset = 0x2000, data_size = 0x1000;

  elf::Encoding encoding;
  std::uint16_t type = ET_DYN;
  std::uint16_t machine = EM_X86_64;
  std::vector<ImageSection> sections;  ///< .shstrtab is added
  bool extended_counts = false;        ///< counts in section 0, as beyond 16 bits
  bool with_sections = true;

  struct SegmentText {
    std::uint32_t type, flags;
    std::uint64_t offset, address, file_size, memory_size;
  };
  std::vector<SegmentText> segments{
      {PT_LOAD, PF_R | PF_X, code_offset, code_address, code_size, code_size},
      {PT_LOAD, PF_R | PF_W, data_offset, data_address, data_size, data_size + 0x100}};

  [[nodiscard]] std::string bytes() const {
    std::string out(data_offset + data_size, '\x90');
    std::string names(1, '\0');
    std::vector<std::uint32_t> name_at;
    std::vector<std::uint64_t> content_at;
    for (const ImageSection& section : sections) {
      name_at.push_back(static_cast<std::uint32_t>(names.size()));
      names += section.name + '\0';
      out.resize((out.size() + 7) / 8 * 8);
      content_at.push_back(out.size());
      if (section.type != SHT_NOBITS)
        out.append(reinterpret_cast<const char*>(section.bytes.data()), section.bytes.size());
    }
    const auto names_name = static_cast<std::uint32_t>(names.size());
    names += std::string(".shstrtab") + '\0';
    const std::uint64_t names_at = out.size();
    out += names;
    out.resize((out.size() + 7) / 8 * 8);
    const std::uint64_t sections_at = out.size();
    const std::uint64_t count = sections.size() + 2;
    if (with_sections) {
      const bool extended = extended_counts;
      section_header(out, 0, SHT_NULL, 0, 0, 0, extended ? count : 0,
                     extended ? static_cast<std::uint32_t>(count - 1) : 0,
                     extended ? static_cast<std::uint32_t>(segments.size()) : 0);
      for (std::size_t i = 0; i < sections.size(); ++i)
        section_header(out, name_at[i], sections[i].type, sections[i].flags, sections[i].address,
                       content_at[i],
                       sections[i].size != 0 ? sections[i].size : sections[i].bytes.size(), 0, 0);
      section_header(out, names_name, SHT_STRTAB, 0, 0, names_at, names.size(), 0, 0);
    }
    std::string head(ELFMAG, SELFMAG);
    head += static_cast<char>(encoding.wide ? ELFCLASS64 : ELFCLASS32);
    head += static_cast<char>(encoding.big_endian ? ELFDATA2MSB : ELFDATA2LSB);
    head += static_cast<char>(EV_CURRENT);
    head.resize(EI_NIDENT, '\0');
    const std::uint64_t header_size = encoding.wide ? 64 : 52;
    number(head, type, 2);
    number(head, machine, 2);
    number(head, EV_CURRENT, 4);
    address(head, 0);
    address(head, header_size);
    address(head, with_sections ? sections_at : 0);
    number(head, 0, 4);
    number(head, header_size, 2);
    number(head, encoding.wide ? 56 : 32, 2);
    number(head, extended_counts ? PN_XNUM : segments.size(), 2);
    number(head, encoding.wide ? 64 : 40, 2);
    number(head, !with_sections || extended_counts ? 0 : count, 2);
    number(head, !with_sections ? 0 : extended_counts ? SHN_XINDEX : count - 1, 2);
    for (const SegmentText& segment : segments) {
      number(head, segment.type, 4);
      if (encoding.wide) number(head, segment.flags, 4);
      address(head, segment.offset);
      address(head, segment.address);
      address(head, segment.address);
      address(head, segment.file_size);
      address(head, segment.memory_size);
      if (!encoding.wide) number(head, segment.flags, 4);
      address(head, 0x1000);
    }
    return out.replace(0, head.size(), head);
  }

  void write(const std::string& path) const { std::ofstream(path, std::ios::binary) << bytes(); }

 private:
  void number(std::string& out, std::uint64_t value, std::size_t size) const {
    for (std::size_t i = 0; i < size; ++i)
      out += static_cast<char>(value >> 8 * (encoding.big_endian ? size - 1 - i : i) & 0xff);
  }
  void address(std::string& out, std::uint64_t value) const {
    number(out, value, encoding.address_bytes());
  }
  void section_header(std::string& out, std::uint32_t name, std::uint32_t kind, std::uint64_t flags,
                      std::uint64_t at, std::uint64_t offset, std::uint64_t size,
                      std::uint32_t link, std::uint32_t info) const {
    number(out, name, 4);
    number(out, kind, 4);
    address(out, flags);
    address(out, at);
    address(out, offset);
    address(out, size);
    number(out, link, 4);
    number(out, info, 4);
    address(out, 4);
    address(out, 0);
  }
};

}  // namespace vitrine::test
