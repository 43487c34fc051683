// An ELF module in memory: its headers, its dynamic section, its TLS segment, and the file as
// loaded.
#pragma once

#include <elf.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/memory.hpp"
#include "base/result.hpp"
#include "elf/file.hpp"

namespace vitrine::elf {

// An ELF module as it lies in memory: its header and program headers, checked.
//
// Everything here reads through a Memory and believes nothing: counts and sizes are bounded by
// base/limits.hpp before they are used, and an address from the module is followed only within what
// the module loads. 64-bit little-endian x86-64 and aarch64; the rest is refused as `unsupported`.

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
/// another machine: the message names it).
Result<Elf64_Ehdr> read_header(Memory& memory, Address at);

/// The module whose ELF header is at `at` (its first loaded page).
Result<Image> read_image(Memory& memory, Address at);

/// A module by its program headers, as the auxiliary vector has them. Without
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

// LoadedFile: a file's bytes at the addresses at which it would be loaded, before any relocation:
// what reads modules in memory (image.hpp, symbols.hpp) can read files too.

class LoadedFile final : public Memory {
 public:
  /// Both must outlive this.
  LoadedFile(Memory& file, const File& elf) : file_(file), elf_(elf) {}

  /// What is in memory but not in the file (.bss) is zeros.
  void read(std::span<ReadRequest> requests) override;

  /// The module it would become, at a bias of 0. Errors: unsupported (not 64-bit little-endian, or
  /// another machine: the message names it), limit (program headers).
  [[nodiscard]] Result<Image> image() const;

 private:
  std::size_t copy(Address address, std::span<std::byte> into);

  Memory& file_;
  const File& elf_;
};

// Where linkers put the thread-local block of an executable, as numbers.

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

// The dynamic section: where a module keeps its symbols and relocations.

/// Part of a module: checked to lie within what it loads.
struct Table {
  Address address = 0;     ///< 0: the module has none
  std::uint64_t size = 0;  ///< bytes; for a table whose length is not known, to the segment's end

  explicit operator bool() const { return address != 0; }
};

/// Runtime addresses, whether or not the dynamic linker had already added the bias to the entries
/// (glibc does, musl does not).
struct Dynamic {
  Table symbols;      ///< DT_SYMTAB
  Table strings;      ///< DT_STRTAB, DT_STRSZ
  Table gnu_hash;     ///< DT_GNU_HASH
  Table hash;         ///< DT_HASH
  Table rela;         ///< DT_RELA, DT_RELASZ
  Table plt_rela;     ///< DT_JMPREL, DT_PLTRELSZ
  Address debug = 0;  ///< DT_DEBUG: struct r_debug, put there at run time
};

/// Reads PT_DYNAMIC. Errors: not_found (the module has none: static), malformed. A table outside of
/// the module counts as absent.
Result<Dynamic> read_dynamic(Memory& memory, const Image& image);

// The dynamic section of a file: what it holds for the dynamic linker, by tag.

/// The first value of `tag` (DT_*); nullopt: the file has none.
std::optional<std::uint64_t> dynamic_value(Memory& file, const File& elf, std::int64_t tag);

/// Whether the file is a program, not a library: its thread-local block is then at a place that its
/// linker knew.
bool is_program(Memory& file, const File& elf);

}  // namespace vitrine::elf
