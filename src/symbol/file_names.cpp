#include "symbol/file_names.hpp"

#include <elf.h>

#include "elf/notes.hpp"
#include "symbol/debug_file.hpp"
#include "symbol/demangle.hpp"
#include "symbol/function_symbols.hpp"

namespace vitrine::symbol {

FileNames::FileNames(FileDescriptor file, const DebugSearch& debug, bool with_dwarf,
                     const Limits& limits)
    : limits_(limits) {
  auto memory = file::FileMemory::from(std::move(file));
  if (!memory) return;
  auto elf = elf::read_file(**memory);
  if (!elf) {
    problem_ = elf.error().message;
    return;
  }
  auto apart = find_debug_file(**memory, *elf, elf::hex_build_id(**memory, *elf), debug);
  take(std::move(*memory), std::move(*elf), with_dwarf);
  if (apart != nullptr) take(std::move(apart->memory), std::move(apart->elf), with_dwarf);
  const auto add = [&](Result<FunctionSymbols> table) {
    if (table)
      symbols_.push_back(std::move(*table));
    else if (table.error().code != ErrorCode::not_found && problem_.empty())
      problem_ = table.error().message;
  };
  for (Source& source : sources_)
    add(FunctionSymbols::read(*source.memory, source.elf, SHT_SYMTAB));
  if (!symbols_.empty()) return;  // what is exported is among them
  for (Source& source : sources_) {
    add(mini_debug_symbols(*source.memory, source.elf));
    add(FunctionSymbols::read(*source.memory, source.elf, SHT_DYNSYM));
  }
}

void FileNames::take(std::unique_ptr<file::FileMemory> file, elf::File elf, bool with_dwarf) {
  if (problem_.empty() && !elf.problems.empty()) problem_ = elf.problems.front();
  if (with_dwarf && dwarf_ == nullptr) {
    auto dwarf = DwarfInfo::open(file->descriptor(), elf);
    if (dwarf)
      dwarf_ = std::move(*dwarf);
    else if (dwarf.error().code != ErrorCode::not_found && problem_.empty())
      problem_ = dwarf.error().message;
  }
  sources_.push_back({std::move(file), std::move(elf)});
}

/// Of what is executed; nothing: no segment holds it.
std::optional<Address> FileNames::address_of(std::uint64_t file_offset) const {
  if (sources_.empty()) return std::nullopt;
  for (const elf::Segment& segment : sources_.front().elf.segments)
    if (segment.type == PT_LOAD && (segment.flags & PF_X) != 0 && file_offset >= segment.offset &&
        file_offset - segment.offset < segment.file_size)
      return file_offset - segment.offset + segment.address;
  return std::nullopt;
}

Frames FileNames::find(Address address, Place place) {
  if (place == Place::file_offset) {
    const auto mapped = address_of(address);
    if (!mapped) return {};
    address = *mapped;
  }
  Frames frames;
  if (dwarf_ != nullptr) frames = dwarf_->find(address, limits_.inline_depth);
  // The symbol table knows what code a name is of better than DWARF: the parts that a function was
  // split into have names of their own there.
  for (const FunctionSymbols& symbols : symbols_)
    if (const auto found = symbols.find(address)) {
      if (frames.empty()) frames.emplace_back();
      frames.back().name = found->name;
      if (address - found->start < ~0U)
        frames.back().offset = static_cast<std::uint32_t>(address - found->start);
      break;
    }
  for (Frame& frame : frames) finish(frame);
  if (frames.size() == 1 && frames[0].name.empty() && frames[0].file.empty()) frames.clear();
  return frames;
}

void FileNames::finish(Frame& frame) const {
  std::string name = demangled(frame.name);
  if (name != frame.name) frame.system_name = std::move(frame.name);
  frame.name = std::move(name);
  for (std::string* text : {&frame.name, &frame.system_name, &frame.file})
    if (text->size() > limits_.name_bytes) text->resize(limits_.name_bytes);
}

std::string FileNames::problem() const {
  if (!problem_.empty() || dwarf_ == nullptr) return problem_;
  return dwarf_->problem();
}

}  // namespace vitrine::symbol
