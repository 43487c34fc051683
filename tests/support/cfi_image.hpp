// A small ELF file with call frame information.
#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "elf_image.hpp"

namespace vitrine::test {

inline constexpr std::size_t code_bytes = 0x1000;

/// Code from 0 to 0x1000 (the headers are in it, and .plt at 0xc00), then the section `name` of CFI,
/// then its index (.eh_frame_hdr; empty: none).
inline std::vector<std::byte> cfi_image(std::uint16_t machine, const char* name,
                                        std::span<const std::byte> cfi,
                                        std::span<const std::byte> index) {
  std::vector<std::byte> file(code_bytes);
  file.insert(file.end(), cfi.begin(), cfi.end());
  file.insert(file.end(), index.begin(), index.end());
  Elf64_Ehdr header = elf_header(machine);
  header.e_phnum = index.empty() ? 1 : 2;
  header.e_shoff = 64 + 2 * sizeof(Elf64_Phdr);
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 4;
  header.e_shstrndx = 3;
  Elf64_Phdr segments[2] = {};
  segments[0] = {PT_LOAD, PF_R | PF_X, 0, 0, 0, file.size(), file.size(), 4096};
  segments[1] = {
      PT_GNU_EH_FRAME, PF_R, code_bytes + cfi.size(), code_bytes + cfi.size(), 0, index.size(),
      index.size(),    4};
  Elf64_Shdr sections[4] = {};
  sections[1] = {1, SHT_PROGBITS, SHF_ALLOC, code_bytes, code_bytes, cfi.size(), 0, 0, 8, 0};
  sections[2] = {14, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 0xc00, 0xc00, 0x100, 0, 0, 16, 16};
  sections[3] = {0, SHT_STRTAB, 0, 0, 0x300, 32, 0, 0, 1, 0};
  std::memcpy(file.data(), &header, sizeof header);
  std::memcpy(file.data() + 64, segments, sizeof segments);
  std::memcpy(file.data() + header.e_shoff, sections, sizeof sections);
  std::memcpy(file.data() + 0x301, name, std::strlen(name));
  std::memcpy(file.data() + 0x300 + 14, ".plt", 4);
  return file;
}

}  // namespace vitrine::test
