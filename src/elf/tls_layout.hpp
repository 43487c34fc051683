// Where linkers put the thread-local block of an executable, as numbers.
#pragma once

#include <cstdint>

#include "elf/image.hpp"

namespace vitrine::elf {

/// Offset from the thread pointer of the byte `value` (st_value) in the executable's TLS block. The
/// block is next to the thread pointer, at the nearest place whose alignment residue is that of
/// p_vaddr (docs/formats/tls.md, "Executables"): below it (x86)…
constexpr std::int64_t tls_offset_below(const TlsSegment& tls, std::uint64_t value) {
  const std::uint64_t mask = tls.alignment - 1;
  return static_cast<std::int64_t>(value - tls.size - ((0 - tls.vaddr - tls.size) & mask));
}

/// … or above it and `header` bytes of the C library (aarch64: 16).
constexpr std::int64_t tls_offset_above(const TlsSegment& tls, std::uint64_t value,
                                        std::uint64_t header) {
  const std::uint64_t mask = tls.alignment - 1;
  return static_cast<std::int64_t>(header + ((tls.vaddr - header) & mask) + value);
}

}  // namespace vitrine::elf
