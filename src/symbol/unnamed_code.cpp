#include "symbol/unnamed_code.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "elf/symbol_table.hpp"
#include "unwind/frame_table.hpp"

namespace vitrine::symbol {
namespace {

constexpr std::uint64_t max_stub_bytes = 4U << 20;         // of one section; libchdb has 1 MiB
constexpr std::uint64_t max_relocation_bytes = 64U << 20;  // of one section
constexpr std::size_t stub_bytes = 16;
constexpr std::size_t max_windows = 1024;  // of call frame information: 1 MiB

template <class T>
T number_at(std::span<const std::byte> bytes, std::size_t at) {
  T value{};
  if (at + sizeof value <= bytes.size()) std::memcpy(&value, &bytes[at], sizeof value);
  return value;
}

bool is_stub_section(std::string_view name) {
  return name == ".plt" || name == ".plt.sec" || name == ".plt.got";
}

/// The word that a stub jumps through. x86-64: jmp *slot(%rip).
std::optional<Address> x86_slot(std::span<const std::byte> stub, Address address) {
  constexpr std::size_t jump_bytes = 6;
  for (std::size_t at = 0; at + jump_bytes <= stub.size(); ++at)
    if (stub[at] == std::byte{0xff} && stub[at + 1] == std::byte{0x25})
      return address + at + jump_bytes +
             static_cast<std::uint64_t>(std::int64_t{number_at<std::int32_t>(stub, at + 2)});
  return std::nullopt;
}

/// adrp x16, page; ldr x17, [x16, #offset]; perhaps after bti c.
std::optional<Address> arm_slot(std::span<const std::byte> stub, Address address) {
  for (std::size_t at = 0; at + 8 <= stub.size(); at += 4) {
    const auto page = number_at<std::uint32_t>(stub, at);
    const auto load = number_at<std::uint32_t>(stub, at + 4);
    if ((page & 0x9f00001f) != 0x90000010 || (load & 0xffc003ff) != 0xf9400211) continue;
    const std::uint32_t high = page >> 5 & 0x7ffff, low = page >> 29 & 3;
    const std::int64_t pages = static_cast<std::int32_t>((high << 2 | low) << 11) >> 11;
    constexpr Address page_mask = 0xfff;
    return ((address + at) & ~page_mask) + static_cast<std::uint64_t>(pages * 4096) +
           (load >> 10 & 0xfff) * 8;
  }
  return std::nullopt;
}

/// The index that a lazy stub of x86-64 pushes, as they are with .plt.sec.
std::optional<std::uint32_t> pushed_index(std::span<const std::byte> stub) {
  for (const std::size_t at : {0U, 4U, 6U})
    if (at + 5 <= stub.size() && stub[at] == std::byte{0x68})
      return number_at<std::uint32_t>(stub, at + 1);
  return std::nullopt;
}

}  // namespace

UnnamedCode::UnnamedCode(Memory& file, const elf::File& elf) {
  if (!elf.encoding.wide || elf.encoding.big_endian ||
      (elf.machine != EM_X86_64 && elf.machine != EM_AARCH64))
    return;
  file_ = &file;
  elf_ = &elf;
  for (const elf::Section& section : elf.sections) {
    const Code range{section.address, section.address + section.size};
    if (is_stub_section(elf.name(section)))
      stub_sections_.push_back(range);
    else if ((section.flags & SHF_EXECINSTR) != 0)
      code_.push_back(range);
  }
  windows_.emplace(file, max_windows);
  if (auto frames = unwind::open_eh_frame(*windows_, elf)) frames_ = std::move(*frames);
}

void UnnamedCode::read_stubs() {
  Memory& file = *file_;
  const elf::File& elf = *elf_;
  const auto table = elf::SymbolTable::read(file, elf, SHT_DYNSYM);
  if (!table) return;
  Slots slots;
  std::vector<std::string> lazy;  // of .rela.plt, in its order
  for (const elf::Section& section : elf.sections) {
    if (section.type != SHT_RELA || (section.flags & SHF_ALLOC) == 0) continue;
    const auto content = elf::read_section(file, elf, section, max_relocation_bytes);
    if (!content) continue;
    const bool is_lazy = elf.name(section) == ".rela.plt";
    for (std::size_t at = 0; at + sizeof(Elf64_Rela) <= content->bytes.size();
         at += sizeof(Elf64_Rela)) {
      const auto entry = number_at<Elf64_Rela>(content->bytes, at);
      const std::size_t index = ELF64_R_SYM(entry.r_info);
      std::string name;
      if (index != 0 && index < table->size()) name = table->name(table->at(index));
      name.resize(std::min(name.find('@'), name.size()));
      if (is_lazy) lazy.push_back(name);
      if (!name.empty() && entry.r_addend == 0) slots.emplace(entry.r_offset, std::move(name));
    }
  }
  for (const elf::Section& section : elf.sections) {
    if (!is_stub_section(elf.name(section)) || section.size > max_stub_bytes) continue;
    const auto content = elf::read_section(file, elf, section, max_stub_bytes);
    if (!content) continue;
    const bool is_arm = elf.machine == EM_AARCH64;
    // .plt.got may have entries of 8 bytes: jmp, and a nop of two.
    std::size_t size = section.entry_size == 8 ? 8 : stub_bytes;
    if (is_arm && section.entry_size == 24) size = 24;  // with bti c
    const std::span<const std::byte> code(content->bytes);
    const std::size_t first = elf.name(section) != ".plt" ? 0 : is_arm ? 2 * stub_bytes : size;
    for (std::size_t at = first; at + size <= code.size(); at += size) {
      const auto stub = code.subspan(at, size);
      const Address address = section.address + at;
      const auto slot = is_arm ? arm_slot(stub, address) : x86_slot(stub, address);
      std::string name;
      if (const auto known = slot ? slots.find(*slot) : slots.end(); known != slots.end())
        name = known->second;
      else if (const auto index = slot || is_arm ? std::nullopt : pushed_index(stub);
               index && *index < lazy.size())
        name = lazy[*index];
      if (!name.empty()) stubs_[address] = {address + size, name + "@plt"};
    }
  }
}

std::optional<UnnamedCode::Found> UnnamedCode::find_stub(Address address) {
  if (std::ranges::none_of(stub_sections_, [&](const Code& section) {
        return address >= section.start && address < section.end;
      }))
    return std::nullopt;
  if (!std::exchange(has_read_stubs_, true)) read_stubs();
  const auto after = stubs_.upper_bound(address);
  if (after == stubs_.begin()) return std::nullopt;
  const auto& [start, stub] = *std::prev(after);
  if (address >= stub.end) return std::nullopt;
  return Found{stub.name, start};
}

std::optional<UnnamedCode::Found> UnnamedCode::find_function(Address address) {
  const bool is_code = std::ranges::any_of(
      code_, [&](const Code& code) { return address >= code.start && address < code.end; });
  if (!is_code || !frames_) return std::nullopt;
  const auto entry = frames_->find(address);
  if (!entry) return std::nullopt;
  return Found{fmt::format("+{:#x}", entry->start), entry->start};
}

}  // namespace vitrine::symbol
