// An ELF module as it lies in memory: its header and program headers, checked.
//
// Everything here reads through a Memory and believes nothing: counts and sizes are bounded by
// base/limits.hpp before they are used, and an address from the module is followed only within what
// the module loads. 64-bit little-endian x86-64 and aarch64; the rest is refused as `unsupported`.
#pragma once

#include <elf.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/memory.hpp"
#include "base/result.hpp"

namespace vitrine::elf {

struct Image {
  Address bias = 0;                  ///< runtime address minus p_vaddr
  std::vector<Elf64_Phdr> segments;  ///< all program headers, in file order
  Address headers = 0;               ///< where they are in memory

  /// The first segment of a type (PT_DYNAMIC, PT_TLS, …); null when there is none.
  [[nodiscard]] const Elf64_Phdr* find(std::uint32_t type) const;

  /// Whether `size` bytes at a runtime address lie within one loaded segment.
  [[nodiscard]] bool holds(Address address, std::uint64_t size) const;

  /// The part of `holds` that matters for a table of unknown length: how many bytes of a loaded
  /// segment there are from `address` on; 0 when it is in none.
  [[nodiscard]] std::uint64_t held_from(Address address) const;
};

/// PT_TLS: the template of the module's thread-local block.
struct TlsSegment {
  std::uint64_t vaddr = 0;
  std::uint64_t size = 0;       ///< p_memsz
  std::uint64_t alignment = 1;  ///< a power of two

  bool operator==(const TlsSegment&) const = default;
};

/// Reads and checks an ELF header. Errors: malformed (none), unsupported (32-bit, big-endian, or
/// another machine: the message says which).
Result<Elf64_Ehdr> read_header(Memory& memory, Address at);

/// The module whose ELF header is at `at` (its first loaded page).
Result<Image> read_image(Memory& memory, Address at);

/// A module by its program headers, as the kernel tells them in the auxiliary vector. Without
/// PT_PHDR the bias follows from the segment that holds `at`.
Result<Image> read_image_by_headers(Memory& memory, Address at, std::uint64_t count);

/// The module's TLS template; nullopt when it has none. Errors: malformed (alignment not a power of
/// two or beyond 1 GiB, size beyond 1 TiB).
Result<std::optional<TlsSegment>> tls_segment(const Image& image);

/// PT_INTERP: the path of the dynamic linker; nullopt when there is none or it is not readable.
std::optional<std::string> interpreter(Memory& memory, const Image& image);

/// A NUL-terminated string of at most `limit` bytes. Errors: malformed (unreadable or
/// unterminated).
Result<std::string> read_string(Memory& memory, Address at, std::size_t limit, const char* what);

}  // namespace vitrine::elf
