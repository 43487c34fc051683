// Encoding: how an ELF file writes its numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace vitrine::elf {

/// Reads numbers of a file of any class and byte order. The caller sees to it that the bytes are
/// there; no alignment is needed.
struct Encoding {
  bool wide = true;         ///< ELFCLASS64: addresses of 8 bytes, else 4
  bool big_endian = false;  ///< ELFDATA2MSB

  [[nodiscard]] std::size_t address_bytes() const { return wide ? 8 : 4; }

  [[nodiscard]] std::uint16_t u16(const std::byte* at) const {
    return static_cast<std::uint16_t>(number(at, 2));
  }
  [[nodiscard]] std::uint32_t u32(const std::byte* at) const {
    return static_cast<std::uint32_t>(number(at, 4));
  }
  [[nodiscard]] std::uint64_t u64(const std::byte* at) const { return number(at, 8); }
  [[nodiscard]] std::uint64_t address(const std::byte* at) const {
    return number(at, address_bytes());
  }

  bool operator==(const Encoding&) const = default;

 private:
  [[nodiscard]] std::uint64_t number(const std::byte* at, std::size_t bytes) const {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i)
      value = value << 8 | std::to_integer<std::uint64_t>(at[big_endian ? i : bytes - 1 - i]);
    return value;
  }
};

}  // namespace vitrine::elf
