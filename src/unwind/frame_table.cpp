#include "unwind/frame_table.hpp"

#include <elf.h>

#include "base/byte_memory.hpp"
#include "base/limits.hpp"
#include "elf/section_bytes.hpp"
#include "unwind/cfi_program.hpp"
#include "unwind/known_code.hpp"

namespace vitrine::unwind {
namespace {

/// Where the file has the byte at one of its addresses, and how many follow it there.
struct Held {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

std::optional<Held> held_at(const elf::File& elf, Address address) {
  for (const elf::Segment& segment : elf.segments) {
    const std::uint64_t at = address - segment.address;
    if (segment.type == PT_LOAD && at < segment.file_size)
      return Held{segment.offset + at, segment.file_size - at};
  }
  return std::nullopt;
}

const elf::Segment* find_segment(const elf::File& elf, std::uint32_t type) {
  for (const elf::Segment& segment : elf.segments)
    if (segment.type == type) return &segment;
  return nullptr;
}

constexpr std::uint64_t page_bytes = 4096;

}  // namespace

Result<std::shared_ptr<FrameTable>> FrameTable::open(std::unique_ptr<Memory> file) {
  auto elf = elf::read_file(*file);
  if (!elf) return tl::unexpected<Error>(std::move(elf.error()));
  const auto machine = machine_of(elf->machine);
  if (!machine || !elf->encoding.wide || elf->encoding.big_endian)
    return fail(ErrorCode::unsupported, "stacks are unwound on x86-64 and aarch64 alone");
  std::shared_ptr<FrameTable> table(new FrameTable(std::move(file), std::move(*elf), *machine));
  table->find_cfi();
  return table;
}

FrameTable::FrameTable(std::unique_ptr<Memory> file, elf::File elf, Machine machine)
    : file_(std::move(file)),
      windows_(*file_, limits::cfi_windows),
      elf_(std::move(elf)),
      machine_(machine) {}

void FrameTable::find_cfi() {
  const elf::Segment* header = find_segment(elf_, PT_GNU_EH_FRAME);
  const elf::Section* frames = elf_.find(".eh_frame");
  if (frames != nullptr && frames->type == SHT_NOBITS) frames = nullptr;
  CfiPlace place;
  if (frames != nullptr) {
    place = {frames->offset, frames->size, frames->address, false};
  } else if (header != nullptr) {
    // Without sections the header tells where it is: a pointer relative to itself, after four bytes.
    std::int32_t distance = 0;
    if (file_->read_some(header->offset + 4, std::as_writable_bytes(std::span(&distance, 1))) == 4)
      place.address = header->address + 4 + static_cast<std::uint64_t>(distance);
    if (const auto held = held_at(elf_, place.address))
      place = {held->offset, held->size, place.address, false};
  }
  if (place.size > limits::cfi_section) {
    problem_ = ".eh_frame is larger than a GiB";
    return;
  }
  if (place.size != 0) {
    cfi_.emplace(windows_, place);
    if (header == nullptr || !cfi_->use_index(header->offset, header->file_size, header->address))
      cfi_->make_index();
    if (cfi_->entries() != 0) return;
    cfi_.reset();
  }
  // Go's linker, and handwritten code, have .debug_frame alone.
  const elf::Section* debug = elf_.find(".debug_frame");
  if (debug == nullptr) return;
  auto section = elf::read_section(*file_, elf_, *debug, limits::cfi_unpacked);
  if (!section) {
    problem_ = ".debug_frame: " + section.error().message;
    return;
  }
  problem_ = section->problem;
  const std::uint64_t size = section->bytes.size();
  unpacked_ = std::make_unique<ByteMemory>(std::move(section->bytes));
  cfi_.emplace(*unpacked_, CfiPlace{0, size, 0, true});
  cfi_->make_index();
}

std::optional<Address> FrameTable::bias(Address start, std::uint64_t offset) const {
  for (const elf::Segment& segment : elf_.segments) {
    if (segment.type != PT_LOAD || (segment.flags & PF_X) == 0) continue;
    // Mappings are whole pages, and may be parts of a segment.
    const std::uint64_t first = segment.offset & ~(page_bytes - 1);
    if (offset >= first && offset - first < segment.file_size + page_bytes &&
        offset < segment.offset + segment.file_size)
      return start - offset + segment.offset - segment.address;
  }
  return std::nullopt;
}

std::optional<Row> FrameTable::make_row(Address address) {
  std::optional<Row> row;
  if (cfi_)
    if (const auto entry = cfi_->find(address)) row = row_at(*entry, address, machine_);
  if (row && !(row->is_signal && machine_ == Machine::aarch64)) return row;

  // A handler returns to the first instruction of the trampoline: what is looked up is the byte
  // before.
  if (const auto held = held_at(elf_, address + 1)) {
    std::byte code[signal_code_bytes];
    const std::size_t got = windows_.read_some(held->offset, code);
    if (auto signal = signal_row(machine_, std::span(code, got))) return signal;
  }
  if (row) return row;
  for (const elf::Section& section : elf_.sections)
    if ((section.flags & SHF_EXECINSTR) != 0 && address - section.address < section.size)
      return linkage_row(machine_, elf_.name(section), address - section.address);
  return std::nullopt;
}

const Row* FrameTable::row(Address address) {
  auto known = rows_.find(address);
  if (known == rows_.end()) {
    if (rows_.size() >= limits::cfi_rows) rows_.clear();
    known = rows_.emplace(address, make_row(address)).first;
  }
  return known->second ? &*known->second : nullptr;
}

Rule FrameTable::rule(Address address) {
  const auto row = make_row(address);
  return row ? compact(*row, machine_) : Rule{};
}

}  // namespace vitrine::unwind
