#include "elf/relocations.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/limits.hpp"
#include "elf/file.hpp"

namespace vitrine::elf {
namespace {

constexpr std::size_t relocations_per_read = 2048;
constexpr std::size_t found_max = 64 * 1024;

Result<void> scan(Memory& memory, const Image& image, const Table& table,
                  std::span<const std::uint32_t> types, std::vector<Relocation>& found) {
  const std::uint64_t count = table.size / sizeof(Elf64_Rela);
  if (count > limits::relocations)
    return fail(ErrorCode::limit, fmt::format("{} relocations at {:#x}", count, table.address));
  std::vector<Elf64_Rela> chunk(relocations_per_read);
  for (std::uint64_t first = 0; first < count; first += relocations_per_read) {
    const auto part = std::span(chunk).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(relocations_per_read, count - first)));
    const Address at = table.address + first * sizeof(Elf64_Rela);
    TRY(memory.read_exact(at, std::as_writable_bytes(part), "relocations"));
    for (const Elf64_Rela& raw : part) {
      const auto type = static_cast<std::uint32_t>(ELF64_R_TYPE(raw.r_info));
      const Address where = image.bias + raw.r_offset;
      if (std::find(types.begin(), types.end(), type) == types.end() || !image.holds(where, 8))
        continue;
      if (found.size() == found_max)
        return fail(ErrorCode::limit, fmt::format("more than {} relevant relocations", found_max));
      found.push_back(
          {where, type, static_cast<std::uint32_t>(ELF64_R_SYM(raw.r_info)), raw.r_addend});
    }
  }
  return {};
}

}  // namespace

Result<std::vector<Relocation>> find_relocations(Memory& memory, const Image& image,
                                                 const Dynamic& dynamic,
                                                 std::span<const std::uint32_t> types) {
  std::vector<Relocation> found;
  for (const Table& table : {dynamic.rela, dynamic.plt_rela})
    TRY(scan(memory, image, table, types, found));
  return found;
}

TlsRelocationTypes tls_relocation_types(std::uint16_t machine) {
  return machine == EM_X86_64
             ? TlsRelocationTypes{R_X86_64_TLSDESC, R_X86_64_DTPMOD64, R_X86_64_TPOFF64}
             : TlsRelocationTypes{R_AARCH64_TLSDESC, R_AARCH64_TLS_DTPMOD, R_AARCH64_TLS_TPREL};
}

Result<std::vector<Relocation>> tls_relocations(Memory& memory, const Image& image,
                                                const Dynamic& dynamic,
                                                const TlsRelocationTypes& types,
                                                const Symbol& symbol) {
  const std::array<std::uint32_t, 3> all{types.descriptor, types.module_id, types.tp_offset};
  auto found = TRY(find_relocations(memory, image, dynamic, all));
  // A reference to a local or hidden copy has no symbol.
  std::erase_if(found, [&](const Relocation& relocation) {
    if (relocation.symbol != 0) return relocation.symbol != symbol.index;
    if (relocation.type != types.module_id)
      return static_cast<std::uint64_t>(relocation.addend) != symbol.value;
    const auto offset = memory.read_value<std::uint64_t>(relocation.where + 8, "a GOT word");
    return !offset || *offset != symbol.value;
  });
  return found;
}

namespace {

/// The relocations that fill a word of the table.
struct Types {
  std::uint32_t of_symbol, of_address;
};
std::optional<Types> types_of(std::uint16_t machine) {
  switch (machine) {
    case EM_X86_64:
    case EM_386:
      static_assert(R_386_GLOB_DAT == R_X86_64_GLOB_DAT && R_386_RELATIVE == R_X86_64_RELATIVE);
      return Types{R_X86_64_GLOB_DAT, R_X86_64_RELATIVE};
    case EM_AARCH64:
      return Types{R_AARCH64_GLOB_DAT, R_AARCH64_RELATIVE};
    case EM_ARM:
      return Types{R_ARM_GLOB_DAT, R_ARM_RELATIVE};
    default:
      return std::nullopt;
  }
}

bool is_table(std::string_view name) {
  return name == ".got" || name == ".got.plt";
}

}  // namespace

GlobalOffsetTable::GlobalOffsetTable(Memory& file, const File& elf) {
  if (!types_of(elf.machine)) return;
  const auto symbols = SymbolTable::read(file, elf, SHT_DYNSYM);
  for (const Section& section : elf.sections) {
    if ((section.flags & SHF_ALLOC) == 0) continue;
    if (section.type == SHT_RELA || section.type == SHT_REL)
      read_relocations(file, elf, section, symbols ? &*symbols : nullptr);
    if (section.type == SHT_PROGBITS && is_table(elf.name(section))) read_words(file, elf, section);
  }
}

std::vector<std::byte> GlobalOffsetTable::take(Memory& file, const File& elf,
                                               const Section& section, std::size_t entry) {
  auto read = read_section(file, elf, section, left_ * entry);
  if (!read) return {};
  left_ -= std::min(left_, read->bytes.size() / entry + 1);
  return std::move(read->bytes);
}

void GlobalOffsetTable::read_relocations(Memory& file, const File& elf, const Section& section,
                                         const SymbolTable* symbols) {
  const bool has_addend = section.type == SHT_RELA;
  const std::size_t word = elf.encoding.address_bytes();
  const std::size_t entry = (has_addend ? 3 : 2) * word;
  const auto bytes = take(file, elf, section, entry);
  const Types types = *types_of(elf.machine);
  for (std::size_t at = 0; at + entry <= bytes.size(); at += entry) {
    const std::byte* relocation = bytes.data() + at;
    const Address where = elf.encoding.address(relocation);
    const std::uint64_t info = elf.encoding.address(relocation + word);
    const auto type =
        static_cast<std::uint32_t>(elf.encoding.wide ? info & UINT32_MAX : info & 255);
    const std::uint64_t symbol = elf.encoding.wide ? info >> 32 : info >> 8;
    if (type == types.of_symbol && symbols != nullptr && symbol < symbols->size())
      by_name_.emplace(symbols->name(symbols->at(static_cast<std::size_t>(symbol))), where);
    // Without an addend the word itself has it: read_words() finds it there.
    if (type == types.of_address && has_addend)
      by_address_.emplace(elf.encoding.address(relocation + 2 * word), where);
  }
}

void GlobalOffsetTable::read_words(Memory& file, const File& elf, const Section& section) {
  const std::size_t word = elf.encoding.address_bytes();
  const auto bytes = take(file, elf, section, word);
  for (std::size_t at = 0; at + word <= bytes.size(); at += word)
    if (const Address value = elf.encoding.address(bytes.data() + at); value != 0)
      by_address_.emplace(value, section.address + at);
}

std::optional<Address> GlobalOffsetTable::slot_of(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Address> GlobalOffsetTable::slot_of(Address address) const {
  const auto found = by_address_.find(address);
  return found == by_address_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace vitrine::elf
