#include "probe/site_address.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "probe/argument.hpp"

namespace vitrine::probe {
namespace {

constexpr std::uint64_t counter_bytes = 2;  // of a semaphore

/// Whether `address` lies in the part of a segment that memory has (which may be more than the
/// file).
bool in_memory(const elf::Segment& segment, Address address) {
  return address >= segment.address && address - segment.address < segment.memory_size;
}

const elf::Segment* loaded_at(std::span<const elf::Segment> segments, Address address,
                              std::uint32_t flags) {
  const auto found = std::find_if(segments.begin(), segments.end(), [&](const auto& segment) {
    return segment.type == PT_LOAD && (segment.flags & flags) == flags &&
           in_memory(segment, address);
  });
  return found == segments.end() ? nullptr : &*found;
}

bool in_relro(std::span<const elf::Segment> segments, Address address) {
  return std::any_of(segments.begin(), segments.end(), [&](const auto& segment) {
    return segment.type == PT_GNU_RELRO && in_memory(segment, address);
  });
}

/// What a linker leaves of a reference to code that it threw away: 0, -1, -2, or an offset into a
/// function as if that were at 0, which is below all code.
bool is_tombstone(const StapsdtNote& note, Address address, const FileLayout& layout) {
  constexpr Address header_bytes = 64;  // begins every file: no code is there
  constexpr Address last = UINT64_MAX, last_narrow = UINT32_MAX;
  if (note.address < header_bytes || note.address >= last - 1) return true;
  if (note.address == last_narrow || note.address == last_narrow - 1)
    return loaded_at(layout.segments, address, 0) == nullptr;
  return !layout.segments.empty() &&
         std::all_of(layout.segments.begin(), layout.segments.end(), [&](const auto& segment) {
           return segment.type != PT_LOAD || (segment.flags & PF_X) == 0 ||
                  address < segment.address;
         });
}

void place_code(Site& site, const FileLayout& layout) {
  if (layout.segments.empty()) {
    site.problems.emplace_back("the file has no program headers that locate its code");
    return;
  }
  site.file_offset = file_offset(layout.segments, site.address, 1, PF_X);
  if (!site.file_offset)
    site.problems.push_back(
        loaded_at(layout.segments, site.address, PF_X) != nullptr
            ? fmt::format("its address {} is in memory, but not in the file", hex(site.address))
            : fmt::format("its address {} is not in executable memory", hex(site.address)));
  else if (*site.file_offset >= layout.file_size) {
    site.problems.push_back(fmt::format("its offset {} is beyond the end of the file, {} bytes",
                                        hex(*site.file_offset), layout.file_size));
    site.file_offset.reset();
  }
}

const char* text(SemaphoreFault fault) {
  switch (fault) {
    case SemaphoreFault::none:
      return "";
    case SemaphoreFault::not_writable:
      return "is not in writable memory";
    case SemaphoreFault::made_read_only:
      return "is in memory that is made read-only at start (RELRO)";
    case SemaphoreFault::not_in_file:
      return "is not in the file (.bss): the kernel cannot count in it";
    case SemaphoreFault::odd:
      return "is at an odd offset in the file: the kernel rejects it";
    case SemaphoreFault::beyond_file:
      return "is beyond the end of the file";
  }
  return "";
}

void place_semaphore(Site& site, const FileLayout& layout) {
  if (site.semaphore == 0) return;
  site.semaphore_offset = file_offset(layout.segments, site.semaphore, counter_bytes, PF_W);
  if (const SemaphoreFault fault = semaphore_fault(site.semaphore, layout);
      fault != SemaphoreFault::none) {
    site.semaphore_offset.reset();
    site.problems.push_back(fmt::format("its semaphore {} {}; code that checks it will not fire",
                                        hex(site.semaphore), text(fault)));
    return;
  }
  if (const auto page = page_mapped_twice(site.semaphore, layout)) site.counted_first = page->first;
}

}  // namespace

SemaphoreFault semaphore_fault(Address semaphore, const FileLayout& layout) {
  if (loaded_at(layout.segments, semaphore, PF_W) == nullptr) return SemaphoreFault::not_writable;
  if (in_relro(layout.segments, semaphore)) return SemaphoreFault::made_read_only;
  const auto offset = file_offset(layout.segments, semaphore, counter_bytes, PF_W);
  if (!offset) return SemaphoreFault::not_in_file;
  if (*offset % counter_bytes != 0) return SemaphoreFault::odd;
  if (*offset >= layout.file_size - (counter_bytes - 1)) return SemaphoreFault::beyond_file;
  return SemaphoreFault::none;
}

std::optional<PageMappedTwice> page_mapped_twice(Address semaphore, const FileLayout& layout) {
  const elf::Segment* own = loaded_at(layout.segments, semaphore, PF_W);
  const auto offset = file_offset(layout.segments, semaphore, counter_bytes, PF_W);
  if (own == nullptr || !offset) return std::nullopt;
  const std::uint64_t page = *offset / layout.page_bytes * layout.page_bytes;
  for (const elf::Segment& other : layout.segments) {
    if (other.type != PT_LOAD || (other.flags & PF_W) == 0 || other.address >= own->address)
      continue;
    // Whole pages are mapped.
    if (other.file_size == 0 || page < other.offset / layout.page_bytes * layout.page_bytes ||
        (page >= other.offset && page - other.offset >= other.file_size))
      continue;
    return PageMappedTwice{page, other.address + (page - other.offset),
                           semaphore - (*offset - page)};
  }
  return std::nullopt;
}

void place(Site& site, const FileLayout& layout) {
  place_code(site, layout);
  place_semaphore(site, layout);
}

std::optional<Site> make_site(const StapsdtNote& note, const FileLayout& layout) {
  // The linker's section may have been moved since (prelink); the notes then still have where it
  // was. Without the section there is nothing to go by.
  const std::uint64_t moved =
      layout.stapsdt_base && note.base != 0 ? *layout.stapsdt_base - note.base : 0;
  Site site;
  site.address = note.address + moved;
  if (note.semaphore != 0) site.semaphore = note.semaphore + moved;
  site.arguments = split_arguments(note.arguments);
  if (layout.type == ET_REL) {
    site.problems.emplace_back("the file is not linked yet: its addresses are not final");
    return site;
  }
  if (is_tombstone(note, site.address, layout)) return std::nullopt;
  place(site, layout);
  return site;
}

}  // namespace vitrine::probe
