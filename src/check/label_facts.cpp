#include "check/label_facts.hpp"

#include <elf.h>

#include <algorithm>
#include <array>

#include "abi/custom_labels.hpp"
#include "abi/thread_context.hpp"
#include "elf/dynamic.hpp"
#include "elf/file_relocations.hpp"
#include "elf/file_symbols.hpp"
#include "elf/loaded_file.hpp"
#include "elf/tls_relocations.hpp"

namespace vitrine::check {
namespace {

constexpr std::array<std::string_view, 4> names{
    abi::custom_labels::version_symbol, abi::custom_labels::v0_slot_symbol,
    abi::custom_labels::v1_slot_symbol, abi::thread_context::slot_symbol};

class Reader {
 public:
  Reader(Memory& file, const elf::File& elf, LabelFacts& into)
      : file_(file), elf_(elf), memory_(file, elf), into_(into) {}

  void read() {
    into_.v0.name = abi::custom_labels::v0_slot_symbol;
    into_.v0.bytes = sizeof(abi::custom_labels::SetV0);
    into_.v1.name = abi::custom_labels::v1_slot_symbol;
    into_.thread_context.name = abi::thread_context::slot_symbol;
    const auto image = memory_.image();
    if (!image) {
      into_.unsupported = image.error().message;
      return;
    }
    if (const auto block = elf::tls_segment(*image))
      into_.block = *block;
    else
      into_.broken = block.error().message;
    read_exported(*image);
    read_symtab();
    read_version();
  }

 private:
  [[nodiscard]] std::array<SymbolFacts*, names.size()> facts() const {
    return {&into_.version, &into_.v0, &into_.v1, &into_.thread_context};
  }

  void read_exported(const elf::Image& image) {
    const auto dynamic = elf::read_dynamic(memory_, image);
    if (!dynamic) {
      if (dynamic.error().code != ErrorCode::not_found) into_.broken = dynamic.error().message;
      return;
    }
    const auto found = elf::find_symbols(memory_, *dynamic, names);
    if (!found) {
      // A static-pie without exports has no hash table.
      if (found.error().code != ErrorCode::not_found) into_.broken = found.error().message;
      return;
    }
    into_.exports = true;
    for (std::size_t i = 0; i < names.size(); ++i) facts()[i]->exported = (*found)[i];
    for (SlotFacts* slot : {&into_.v0, &into_.v1, &into_.thread_context})
      if (slot->exported) read_accesses(image, *dynamic, *slot);
  }

  void read_accesses(const elf::Image& image, const elf::Dynamic& dynamic, SlotFacts& slot) {
    const auto types = elf::tls_relocation_types(elf_.machine);
    const auto found = elf::tls_relocations(memory_, image, dynamic, types, *slot.exported);
    if (!found) {
      into_.broken = found.error().message;
      return;
    }
    const auto has = [&](std::uint32_t type) {
      return std::ranges::any_of(*found, [&](const auto& one) { return one.type == type; });
    };
    if (has(types.descriptor)) slot.accesses.push_back(Access::descriptor);
    if (has(types.module_id)) slot.accesses.push_back(Access::general_dynamic);
    if (has(types.tp_offset)) slot.accesses.push_back(Access::initial_exec);
  }

  void read_symtab() {
    const auto found = elf::find_file_symbols(file_, names);
    into_.symtab = found || found.error().code != ErrorCode::not_found;
    if (!found) return;
    for (std::size_t i = 0; i < names.size(); ++i) facts()[i]->inside = (*found)[i];
  }

  void read_version() {
    const elf::Symbol* symbol = into_.version.any();
    if (symbol == nullptr) return;
    VersionFacts& version = into_.version;
    constexpr std::uint64_t bytes = abi::custom_labels::version_size;
    if (const auto value = memory_.read_value<std::uint32_t>(symbol->value, "the version"))
      version.value = *value;
    version.file_offset = elf::file_offset(elf_.segments, symbol->value, bytes, 0);
    version.writable =
        is_in(PT_LOAD, PF_W, symbol->value) && !is_in(PT_GNU_RELRO, 0, symbol->value);
    const elf::AddressRange range{symbol->value, symbol->value + bytes};
    version.relocated = !elf::dynamic_relocations(file_, elf_, {&range, 1}).relocations.empty();
  }

  [[nodiscard]] bool is_in(std::uint32_t type, std::uint32_t flags, Address address) const {
    return std::ranges::any_of(elf_.segments, [&](const elf::Segment& one) {
      return one.type == type && (one.flags & flags) == flags && address >= one.address &&
             address - one.address < one.memory_size;
    });
  }

  Memory& file_;
  const elf::File& elf_;
  elf::LoadedFile memory_;
  LabelFacts& into_;
};

}  // namespace

std::string_view name(Access access) {
  switch (access) {
    case Access::descriptor:
      return "TLSDESC";
    case Access::general_dynamic:
      return "GD";
    case Access::initial_exec:
      return "IE";
  }
  return "unknown";
}

bool LabelFacts::is_v0() const {
  if (asked_v0) return *asked_v0;
  if (v0.there() != v1.there()) return v0.there();
  if (v0.exported.has_value() != v1.exported.has_value()) return v0.exported.has_value();
  return prefer_v0;
}

LabelFacts read_label_facts(Memory& file, const elf::File& elf) {
  LabelFacts facts;
  Reader(file, elf, facts).read();
  return facts;
}

}  // namespace vitrine::check
