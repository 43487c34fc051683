// What relocations of a file say, and what would be where once it is loaded: an ELF file.
#include "elf/relocations.hpp"

#include <algorithm>

#include "base/limits.hpp"
#include "elf/image.hpp"
#include "elf/symbol_table.hpp"
#include "elf/symbols.hpp"
#include "input.hpp"

using namespace vitrine;

namespace {

void symbol_table(Memory& file, const elf::File& elf, std::uint32_t type) {
  const auto table = elf::SymbolTable::read(file, elf, type);
  if (!table) return;
  const elf::SourceFiles sources(*table);
  for (std::size_t i = 0; i < std::min<std::size_t>(table->size(), 64); ++i) {
    const elf::TableSymbol symbol = table->at(i);
    const std::string_view name = table->name(symbol);
    if (const auto source = sources.of_symbol(i)) fuzz::require(*source < table->size());
    (void)sources.of_address(symbol.value);
    if (name.empty()) continue;
    const auto found = table->find(name);
    fuzz::require(std::find(found.begin(), found.end(), i) != found.end());
  }
}

void loaded(Memory& file, const elf::File& elf) {
  elf::LoadedFile memory(file, elf);
  const auto image = memory.image();
  if (!image) return;
  const auto dynamic = elf::read_dynamic(memory, *image);
  if (!dynamic) return;
  const auto symbol = elf::find_symbol(memory, *dynamic, "custom_labels_current_set");
  if (!symbol || !*symbol) return;
  for (const std::uint16_t machine : {std::uint16_t{EM_X86_64}, std::uint16_t{EM_AARCH64}})
    (void)elf::tls_relocations(memory, *image, *dynamic, elf::tls_relocation_types(machine),
                               **symbol);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::RegionMemory file(0, fuzz::bytes(data, size));
  const auto elf = elf::read_file(file);
  if (!elf) return 0;
  (void)elf::is_program(file, *elf);
  const elf::AddressRange all{0, ~Address{0}};
  const auto dynamic = elf::dynamic_relocations(file, *elf, {&all, 1});
  fuzz::require(dynamic.relocations.size() <= limits::relocations);
  for (const elf::DynamicRelocation& one : dynamic.relocations)
    (void)elf::relocation_name(elf->machine, one.type);
  std::vector<std::size_t> sections;
  for (std::size_t i = 0; i < std::min<std::size_t>(elf->sections.size(), 64); ++i)
    sections.push_back(i);
  for (const auto& [section, relocations] : elf::section_relocations(file, *elf, sections))
    fuzz::require(section < elf->sections.size() && relocations.size() <= limits::relocations);
  const elf::GlobalOffsetTable words(file, *elf);
  (void)words.slot_of("variable");
  (void)words.slot_of(Address{0x4000});
  for (const std::uint32_t type : {std::uint32_t{SHT_SYMTAB}, std::uint32_t{SHT_DYNSYM}})
    symbol_table(file, *elf, type);
  loaded(file, *elf);
  return 0;
}
