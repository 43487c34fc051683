// From a note to a site: prelink adjustment, offsets in the file, and what a semaphore must be for
// the kernel to count in it (docs/formats/sdt.md, "Addresses" and "Semaphores").
#pragma once

#include <elf.h>

#include <optional>
#include <span>

#include "elf/file.hpp"
#include "probe/notes.hpp"
#include "probe/probe.hpp"

namespace vitrine::probe {

/// What of an ELF file decides where its probes are. All of it is of the file that runs: of a
/// separate debug file only the notes (and `stapsdt_base`) can be trusted.
struct FileLayout {
  std::uint16_t type = ET_DYN;             ///< e_type
  std::span<const elf::Segment> segments;  ///< in any order
  std::uint64_t file_size = UINT64_MAX;    ///< bytes; nothing can be probed beyond
  std::optional<Address> stapsdt_base;     ///< sh_addr of `.stapsdt.base`
  std::uint64_t page_bytes = 4096;         ///< in which the file is mapped
};

/// The site of a note, with its arguments split. What keeps it from being probed, and what is wrong
/// with its semaphore, is reported in `problems`. Nullopt: a tombstone, whose code the linker left
/// out.
std::optional<Site> make_site(const StapsdtNote& note, const FileLayout& layout);

/// Why the kernel cannot count observers in a semaphore.
enum class SemaphoreFault : std::uint8_t {
  none,
  not_writable,
  made_read_only,  ///< RELRO
  not_in_file,     ///< .bss
  odd,             ///< its offset in the file
  beyond_file,
};
SemaphoreFault semaphore_fault(Address semaphore, const FileLayout& layout);

/// A page of the file that two writable segments map. The kernel counts in the first mapping, but
/// the program reads the second. lld and mold lay files out so: the first is RELRO, which the dynamic
/// linker makes read-only, and from then on the kernel counts in the second.
struct PageMappedTwice {
  std::uint64_t offset = 0;  ///< in the file
  Address first = 0;         ///< of the page, where the kernel counts at the start
  Address own = 0;           ///< of the page, where the semaphore is
};
std::optional<PageMappedTwice> page_mapped_twice(Address semaphore, const FileLayout& layout);

/// Fills in where a site and its semaphore are in the file, by their addresses; what keeps them from
/// being used is reported in `problems`.
void place(Site& site, const FileLayout& layout);

}  // namespace vitrine::probe
