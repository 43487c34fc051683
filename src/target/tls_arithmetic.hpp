// Where the linker and the C library put thread-local blocks, as numbers. No memory is read here.
#pragma once

#include <cstdint>

#include "elf/tls_layout.hpp"
#include "target/tls_location.hpp"

namespace vitrine::target {

/// Offset from the thread pointer of the byte `value` (st_value) in the executable's TLS block.
constexpr std::int64_t executable_tls_offset(Machine machine, const elf::TlsSegment& tls,
                                             std::uint64_t value) {
  return machine == Machine::x86_64 ? elf::tls_offset_below(tls, value)
                                    : elf::tls_offset_above(tls, value, 16);
}

/// The same for a library whose block glibc has reserved at l_tls_offset (docs/formats/tls.md,
/// "glibc").
constexpr std::int64_t library_tls_offset(Machine machine, std::uint64_t l_tls_offset,
                                          std::uint64_t value) {
  return static_cast<std::int64_t>(machine == Machine::x86_64 ? value - l_tls_offset
                                                              : value + l_tls_offset);
}

}  // namespace vitrine::target
