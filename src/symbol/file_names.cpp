#include "symbol/file_names.hpp"

#include <elf.h>

#include <algorithm>

#include "elf/go_functions.hpp"
#include "elf/notes.hpp"
#include "symbol/demangle.hpp"

namespace vitrine::symbol {
namespace {

/// Of the memory for files that are open, for what has been read of the units of one.
constexpr std::uint64_t units_part = 2;

}  // namespace

FileNames::FileNames(FileDescriptor file, const DebugSearch& debug, bool with_dwarf,
                     const Limits& limits)
    : limits_(limits) {
  auto memory = sandbox::FileMemory::from(std::move(file));
  if (!memory) return;
  auto elf = elf::read_file(**memory);
  if (!elf) {
    problem_ = elf.error().message;
    return;
  }
  unnamed_ = UnnamedCode(**memory, *elf);
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
    elf::visit_go_functions(
        *source.memory, source.elf,
        [this](Address start, std::string_view name) { go_functions_.try_emplace(start, name); });
  }
}

void FileNames::take(std::unique_ptr<sandbox::FileMemory> file, elf::File elf, bool with_dwarf) {
  if (problem_.empty() && !elf.problems.empty()) problem_ = elf.problems.front();
  if (with_dwarf && dwarf_ == nullptr) {
    auto dwarf = DwarfInfo::open(file->descriptor(), elf, DwarfInfo::Purpose::names,
                                 limits_.open_memory / units_part);
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

/// Of the first table that has a function with a size there; else of the nearest one without.
std::optional<FunctionSymbols::Found> FileNames::symbol_at(Address address) const {
  std::optional<FunctionSymbols::Found> nearest;
  for (const FunctionSymbols& symbols : symbols_) {
    const auto found = symbols.find(address);
    if (!found) continue;
    if (found->has_size) return found;
    if (!nearest || found->start > nearest->start) nearest = found;
  }
  return nearest;
}

/// Go's functions follow one another; where the last one ends is not known.
std::optional<FunctionSymbols::Found> FileNames::go_function_at(Address address) const {
  const auto next = go_functions_.upper_bound(address);
  if (next == go_functions_.begin() || next == go_functions_.end()) return std::nullopt;
  const auto& [start, name] = *std::prev(next);
  return FunctionSymbols::Found{name, start, true};
}

std::vector<Frames> FileNames::find(std::span<const Address> addresses, Place place) {
  std::vector<Frames> found(addresses.size());
  struct Wanted {
    std::uint32_t unit = 0;
    Address address = 0;
    std::size_t position = 0;
  };
  std::vector<Wanted> wanted;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const auto address =
        place == Place::address ? std::optional(addresses[i]) : address_of(addresses[i]);
    if (!address) continue;
    const auto unit = dwarf_ != nullptr ? dwarf_->unit_of(*address) : std::nullopt;
    wanted.push_back({unit.value_or(0), *address, i});
  }
  // A unit is read once, even if there is no memory for all that are wanted.
  std::ranges::sort(wanted, {}, [](const Wanted& one) { return std::pair(one.unit, one.address); });
  for (const Wanted& one : wanted) found[one.position] = find_one(one.address, place);
  if (dwarf_ != nullptr) dwarf_->let_go_of_pages();
  return found;
}

Frames FileNames::find_one(Address address, Place place) {
  Frames frames;
  if (dwarf_ != nullptr) frames = dwarf_->find(address, limits_.inline_depth);
  // The symbol table knows what code a name is of better than DWARF: the parts that a function was
  // split into have names of their own there.
  auto found = symbol_at(address);
  if (!found || !found->has_size)
    if (const auto of_go = go_function_at(address)) found = of_go;
  if (found) {
    if (frames.empty()) frames.emplace_back();
    frames.back().name = found->name;
    if (address - found->start < ~0U)
      frames.back().offset = static_cast<std::uint32_t>(address - found->start);
  } else if (const auto stub = unnamed_.find_stub(address); stub && frames.empty()) {
    frames.push_back({stub->name, {}, {}, 0, 0, static_cast<std::uint32_t>(address - stub->start)});
  } else if (const auto function = unnamed_.find_function(address);
             function && frames.empty() && place == Place::address) {
    frames.push_back({function->name, {}, {}, 0, 0, std::nullopt});
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
