#include "elf/dynamic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

namespace vitrine::elf {
namespace {

constexpr std::size_t entries_max = 4096;

// The last entry of each tag we use wins, as in the dynamic linkers.
using Entries = std::map<std::int64_t, std::uint64_t>;

Result<Entries> read_entries(Memory& memory, const Image& image) {
  const Elf64_Phdr* segment = image.find(PT_DYNAMIC);
  if (segment == nullptr) return fail(ErrorCode::not_found, "the module has no dynamic section");
  const Address at = image.bias + segment->p_vaddr;
  const std::size_t count = static_cast<std::size_t>(
      std::min<std::uint64_t>(segment->p_memsz / sizeof(Elf64_Dyn), entries_max));
  std::vector<Elf64_Dyn> raw(count);
  const std::size_t got =
      memory.read_some(at, std::as_writable_bytes(std::span(raw))) / sizeof(Elf64_Dyn);
  if (got == 0)
    return fail(ErrorCode::malformed, fmt::format("no dynamic section is readable at {:#x}", at));
  Entries entries;
  for (std::size_t i = 0; i < got && raw[i].d_tag != DT_NULL; ++i)
    entries[raw[i].d_tag] = raw[i].d_un.d_val;
  return entries;
}

class Tables {
 public:
  Tables(const Image& image, const Entries& entries) : image_(image), entries_(entries) {}

  std::optional<std::uint64_t> value(std::int64_t tag) const {
    const auto entry = entries_.find(tag);
    return entry == entries_.end() ? std::nullopt : std::optional(entry->second);
  }

  Table table(std::int64_t tag, std::int64_t size_tag = DT_NULL) const {
    const auto pointer = value(tag);
    if (!pointer) return {};
    // Not yet relocated, as a rule, when it is below the bias; what decides is where it leads.
    Address address = *pointer;
    if (address < image_.bias || image_.held_from(address) == 0) address += image_.bias;
    const std::uint64_t held = image_.held_from(address);
    const std::uint64_t size = size_tag == DT_NULL ? held : value(size_tag).value_or(0);
    if (held == 0 || size == 0) return {};
    return {address, std::min(size, held)};
  }

 private:
  const Image& image_;
  const Entries& entries_;
};

}  // namespace

Result<Dynamic> read_dynamic(Memory& memory, const Image& image) {
  const auto entries = TRY(read_entries(memory, image));
  const Tables tables(image, entries);
  Dynamic dynamic;
  dynamic.symbols = tables.table(DT_SYMTAB);
  dynamic.strings = tables.table(DT_STRTAB, DT_STRSZ);
  dynamic.gnu_hash = tables.table(DT_GNU_HASH);
  dynamic.hash = tables.table(DT_HASH);
  dynamic.rela = tables.table(DT_RELA, DT_RELASZ);
  dynamic.plt_rela = tables.table(DT_JMPREL, DT_PLTRELSZ);
  dynamic.debug = tables.value(DT_DEBUG).value_or(0);
  return dynamic;
}

}  // namespace vitrine::elf
