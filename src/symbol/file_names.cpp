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

NameSources NameSources::find(FileDescriptor file, const DebugSearch& debug) {
  auto memory = sandbox::FileMemory::from(std::move(file));
  if (!memory) return {};
  auto elf = elf::read_file(**memory);
  if (!elf) return {{}, elf.error().message};
  return find(std::move(*memory), std::move(*elf), debug);
}

NameSources NameSources::find(std::unique_ptr<sandbox::FileMemory> memory, elf::File elf,
                              const DebugSearch& debug) {
  NameSources sources;
  auto apart = find_debug_file(*memory, elf, elf::hex_build_id(*memory, elf), debug);
  sources.files.push_back({std::move(memory), std::move(elf)});
  if (apart != nullptr) sources.files.push_back({std::move(apart->memory), std::move(apart->elf)});
  return sources;
}

std::vector<sandbox::FileIdentity> NameSources::identities() const {
  std::vector<sandbox::FileIdentity> all;
  for (const Source& source : files) all.push_back(source.memory->identity());
  return all;
}

FileNames::FileNames(NameSources sources, const Limits& limits)
    : limits_(limits), sources_(std::move(sources.files)), problem_(std::move(sources.problem)) {
  if (sources_.empty()) return;
  is_go_ = elf::is_go_file(sources_.front().elf);
  for (const NameSources::Source& source : sources_)
    if (problem_.empty() && !source.elf.problems.empty()) problem_ = source.elf.problems.front();
  find_tables();
}

void FileNames::find_tables() {
  const auto add = [&](Result<FunctionTable> table) {
    if (table)
      symbols_.push_back(std::move(*table));
    else if (table.error().code != ErrorCode::not_found && table_problem_.empty())
      table_problem_ = table.error().message;
  };
  for (NameSources::Source& source : sources_)
    add(FunctionTable::find(*source.memory, source.elf, SHT_SYMTAB));
  if (!symbols_.empty()) return;  // what is exported is among them
  for (NameSources::Source& source : sources_) {
    add(mini_debug_symbols(*source.memory, source.elf).map([](FunctionSymbols symbols) {
      return FunctionTable(std::move(symbols));
    }));
    add(FunctionTable::find(*source.memory, source.elf, SHT_DYNSYM));
    elf::visit_go_functions(
        *source.memory, source.elf,
        [this](Address start, std::string_view name) { go_functions_.try_emplace(start, name); });
  }
}

/// Read once an address has no symbol: nearly every one has.
UnnamedCode& FileNames::unnamed() {
  if (!unnamed_)
    unnamed_ = sources_.empty()
                   ? std::make_unique<UnnamedCode>()
                   : std::make_unique<UnnamedCode>(*sources_.front().memory, sources_.front().elf);
  return *unnamed_;
}

/// Of the first of its files that has any.
void FileNames::open_dwarf() {
  if (is_dwarf_open_) return;
  is_dwarf_open_ = true;
  for (NameSources::Source& source : sources_) {
    auto dwarf = DwarfInfo::open(source.memory->descriptor(), source.elf, DwarfInfo::Purpose::names,
                                 limits_.open_memory / units_part);
    if (dwarf) {
      dwarf_ = std::move(*dwarf);
      return;
    }
    if (dwarf.error().code != ErrorCode::not_found && dwarf_problem_.empty())
      dwarf_problem_ = dwarf.error().message;
  }
}

void FileNames::close_dwarf() {
  if (dwarf_ == nullptr) return;
  if (dwarf_problem_.empty()) dwarf_problem_ = dwarf_->problem();
  dwarf_.reset();
  is_dwarf_open_ = false;
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
std::vector<FileNames::Symbol> FileNames::find_symbols(std::span<const Address> addresses) {
  std::vector<Symbol> best(addresses.size());
  for (FunctionTable& table : symbols_) {
    std::vector<Symbol> found = table.find(addresses);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!found[i] || (best[i] && best[i]->has_size)) continue;
      if (!best[i] || found[i]->has_size || found[i]->start > best[i]->start)
        best[i] = std::move(found[i]);
    }
  }
  return best;
}

/// Go's functions follow one another; where the last one ends is not known.
FileNames::Symbol FileNames::go_function_at(Address address) const {
  const auto next = go_functions_.upper_bound(address);
  if (next == go_functions_.begin() || next == go_functions_.end()) return std::nullopt;
  const auto& [start, name] = *std::prev(next);
  return FunctionTable::Found{name, start, true};
}

std::vector<Frames> FileNames::find(std::span<const Address> addresses, bool with_dwarf,
                                    Place place) {
  if (with_dwarf) open_dwarf();
  DwarfInfo* const dwarf = with_dwarf ? dwarf_.get() : nullptr;
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
    const auto unit = dwarf != nullptr ? dwarf->unit_of(*address) : std::nullopt;
    wanted.push_back({unit.value_or(0), *address, i});
  }
  // A unit is read once, even if there is no memory for all that are wanted.
  std::ranges::sort(wanted, {}, [](const Wanted& one) { return std::pair(one.unit, one.address); });
  std::vector<Address> places;
  for (const Wanted& one : wanted) places.push_back(one.address);
  std::vector<Symbol> symbols = find_symbols(places);
  std::vector<Frames> described(wanted.size());
  std::optional<std::uint32_t> last;  // unit that is read
  for (std::size_t i = 0; i < wanted.size() && dwarf != nullptr; ++i) {
    if (symbols[i] && symbols[i]->has_size) described[i] = dwarf->find_in_assembly(places[i]);
    if (described[i].empty()) last = wanted[i].unit;
  }
  if (last) dwarf->expect_unit(*last);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (described[i].empty() && dwarf != nullptr)
      described[i] = dwarf->find(places[i], limits_.inline_depth);
    found[wanted[i].position] =
        find_one(places[i], std::move(symbols[i]), std::move(described[i]), place);
  }
  if (dwarf != nullptr) dwarf->let_go_of_pages();
  return found;
}

/// `frames`: what its debug information has.
Frames FileNames::find_one(Address address, Symbol symbol, Frames frames, Place place) {
  // The symbol table knows what code a name is of better than DWARF: the parts that a function was
  // split into have names of their own there.
  if (!symbol || !symbol->has_size)
    if (auto of_go = go_function_at(address)) symbol = std::move(of_go);
  if (symbol) {
    if (frames.empty()) frames.emplace_back();
    frames.back().name = std::move(symbol->name);
    if (address - symbol->start < ~0U)
      frames.back().offset = static_cast<std::uint32_t>(address - symbol->start);
  } else if (frames.empty()) {
    if (const auto stub = unnamed().find_stub(address))
      frames.push_back(
          {stub->name, {}, {}, 0, 0, static_cast<std::uint32_t>(address - stub->start)});
    else if (const auto function = unnamed().find_function(address);
             function && place == Place::address)
      frames.push_back({function->name, {}, {}, 0, 0, std::nullopt});
  }
  for (Frame& frame : frames) finish(frame);
  if (frames.size() == 1 && frames[0].name.empty() && frames[0].file.empty()) frames.clear();
  return frames;
}

/// A function of Go's assembly has the mark of its calling convention in .symtab, and none in Go's own table, by which
/// go tool pprof and stripped files name it.
void FileNames::drop_go_mark(std::string& name) const {
  constexpr std::string_view mark = ".abi0";
  if (is_go_ && name.ends_with(mark)) name.resize(name.size() - mark.size());
}

void FileNames::finish(Frame& frame) const {
  drop_go_mark(frame.name);
  std::string name = demangled(frame.name);
  if (name != frame.name) frame.system_name = std::move(frame.name);
  frame.name = std::move(name);
  for (std::string* text : {&frame.name, &frame.system_name, &frame.file})
    if (text->size() > limits_.name_bytes) text->resize(limits_.name_bytes);
}

std::string FileNames::problem() const {
  for (const std::string* known : {&problem_, &dwarf_problem_, &table_problem_})
    if (!known->empty()) return *known;
  return dwarf_ != nullptr ? dwarf_->problem() : std::string();
}

}  // namespace vitrine::symbol
