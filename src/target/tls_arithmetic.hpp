// Where the linker and the C library put thread-local blocks, as numbers. No memory is read here.
#pragma once

#include <cstdint>

#include "elf/image.hpp"
#include "target/tls_location.hpp"

namespace vitrine::target {

/// Offset from the thread pointer of the byte `value` (st_value) in the executable's TLS block. The
/// block is next to the thread pointer: below it on x86-64, above it and 16 bytes of the C library
/// on aarch64, at the nearest place whose alignment residue is that of p_vaddr (labels.md 3.3).
constexpr std::int64_t executable_tls_offset(Machine machine, const elf::TlsSegment& tls,
                                             std::uint64_t value) {
  const std::uint64_t mask = tls.alignment - 1;
  if (machine == Machine::x86_64) {
    const std::uint64_t below = tls.size + ((0 - tls.vaddr - tls.size) & mask);
    return static_cast<std::int64_t>(value - below);
  }
  const std::uint64_t above = 16 + ((tls.vaddr - 16) & mask);
  return static_cast<std::int64_t>(above + value);
}

/// The same for a library whose block glibc has reserved at l_tls_offset (labels.md 3.4).
constexpr std::int64_t library_tls_offset(Machine machine, std::uint64_t l_tls_offset,
                                          std::uint64_t value) {
  return static_cast<std::int64_t>(machine == Machine::x86_64 ? value - l_tls_offset
                                                              : value + l_tls_offset);
}

}  // namespace vitrine::target
