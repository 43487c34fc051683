// TlsLocation: how the address of a thread-local variable follows from a thread pointer.
//
// A TLS variable is resolved once per module, not once per thread. What comes out is one of these
// small values; user space (tls_location.cpp) and the BPF programs (bpf/kernel/read_labels.bpf.h) evaluate
// them alike. Source of the rules: docs/formats/tls.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "base/machine.hpp"
#include "base/memory.hpp"
#include "elf/image.hpp"

namespace vitrine::target {

/// Whose dynamic thread vector (DTV) layout applies.
enum class Libc : std::uint8_t { none, glibc, musl };

/// Same offset from the thread pointer in every thread.
struct StaticTls {
  std::int64_t offset = 0;  ///< address = TP + offset

  bool operator==(const StaticTls&) const = default;
};

/// Through the thread's DTV: a block of its own in each thread, perhaps not allocated yet.
struct DynamicTls {
  Libc libc = Libc::glibc;
  std::uint64_t module_id = 0;
  std::uint64_t offset = 0;           ///< of the variable in the module's block
  std::uint64_t need_generation = 0;  ///< glibc: an older DTV has never seen this module

  bool operator==(const DynamicTls&) const = default;
};

using TlsLocation = std::variant<StaticTls, DynamicTls>;

/// The variable's address in the thread whose thread pointer is `tp`; nullopt when that thread has
/// not allocated it yet (it then has its initial value: null, no labels). Fails when the target's
/// DTV is not readable or is invalid.
Result<std::optional<Address>> evaluate(const TlsLocation& location, Machine machine, Address tp,
                                        Memory& memory);

/// "TP-0x8", "module 3 + 0x10 through the DTV (glibc)": for people.
std::string describe(const TlsLocation& location);

// Where the linker and the C library put thread-local blocks, as numbers. No memory is read here.

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
