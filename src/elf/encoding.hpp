// Encoding: how an ELF file writes its numbers.
#pragma once

#include <bit>
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

  [[nodiscard]] std::uint16_t u16(const std::byte* at) const { return number<std::uint16_t>(at); }
  [[nodiscard]] std::uint32_t u32(const std::byte* at) const { return number<std::uint32_t>(at); }
  [[nodiscard]] std::uint64_t u64(const std::byte* at) const { return number<std::uint64_t>(at); }
  [[nodiscard]] std::uint64_t address(const std::byte* at) const {
    return wide ? u64(at) : u32(at);
  }

  bool operator==(const Encoding&) const = default;

 private:
  template <class T>
  [[nodiscard]] T number(const std::byte* at) const {
    T value = 0;
    std::memcpy(&value, at, sizeof value);
    if (big_endian == (std::endian::native == std::endian::big)) return value;
    if constexpr (sizeof value == 2) return __builtin_bswap16(value);
    if constexpr (sizeof value == 4) return __builtin_bswap32(value);
    if constexpr (sizeof value == 8) return __builtin_bswap64(value);
  }
};

}  // namespace vitrine::elf
