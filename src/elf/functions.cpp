#include "elf/functions.hpp"

#include <elf.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "base/limits.hpp"
#include "base/window_memory.hpp"
#include "elf/image.hpp"

namespace vitrine::elf {
namespace {

constexpr std::size_t chunk_entries = 16 * 1024;
constexpr std::size_t name_windows = 4096;  // 4 MiB
/// Functions that all lie around all addresses would make this quadratic: no honest file has more
/// than a few around one.
constexpr std::size_t candidates_per_address = 64;

struct Function {
  std::uint32_t name = 0;
  Address address = 0;
  std::uint64_t size = 0;
  bool is_function = false;
};

Function decode(const Encoding& encoding, const std::byte* at) {
  const auto info = [&](std::size_t offset) {
    const auto type = ELF64_ST_TYPE(std::to_integer<unsigned>(at[offset]));
    return type == STT_FUNC || type == STT_GNU_IFUNC;
  };
  if (encoding.wide)
    return {encoding.u32(at), encoding.u64(at + offsetof(Elf64_Sym, st_value)),
            encoding.u64(at + offsetof(Elf64_Sym, st_size)),
            info(offsetof(Elf64_Sym, st_info)) &&
                encoding.u16(at + offsetof(Elf64_Sym, st_shndx)) != SHN_UNDEF};
  return {encoding.u32(at), encoding.u32(at + offsetof(Elf32_Sym, st_value)),
          encoding.u32(at + offsetof(Elf32_Sym, st_size)),
          info(offsetof(Elf32_Sym, st_info)) &&
              encoding.u16(at + offsetof(Elf32_Sym, st_shndx)) != SHN_UNDEF};
}

/// The innermost function found so far of each address, which are ascending.
class Search {
 public:
  explicit Search(std::vector<Address> addresses)
      : addresses_(std::move(addresses)), found_(addresses_.size()) {}

  void offer(const Function& function) {
    const auto first = std::lower_bound(addresses_.begin(), addresses_.end(), function.address);
    for (auto at = first; at != addresses_.end() && *at - function.address < function.size; ++at) {
      if (steps_ == candidates_per_address * addresses_.size()) return;
      ++steps_;
      Function& best = found_[static_cast<std::size_t>(at - addresses_.begin())];
      if (!best.is_function || function.address > best.address) best = function;
    }
  }

  [[nodiscard]] const std::vector<Function>& found() const { return found_; }

 private:
  std::vector<Address> addresses_;
  std::vector<Function> found_;
  std::size_t steps_ = 0;
};

const Section* symbol_table(const File& elf) {
  for (const auto type : {std::uint32_t{SHT_SYMTAB}, std::uint32_t{SHT_DYNSYM}})
    for (const Section& section : elf.sections)
      if (section.type == type && section.link < elf.sections.size()) return &section;
  return nullptr;
}

void search_table(Memory& file, const File& elf, const Section& table, Search& search) {
  const std::size_t entry = elf.encoding.wide ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
  std::vector<std::byte> chunk(chunk_entries * entry);
  const std::uint64_t thumb = elf.machine == EM_ARM ? 1 : 0;
  const std::uint64_t count = std::min<std::uint64_t>(table.size / entry, limits::file_symbols);
  for (std::uint64_t first = 0; first < count; first += chunk_entries) {
    const auto want =
        static_cast<std::size_t>(std::min<std::uint64_t>(chunk_entries, count - first));
    const std::size_t got =
        file.read_some(table.offset + first * entry, std::span(chunk).first(want * entry)) / entry;
    for (std::size_t i = 0; i < got; ++i) {
      Function function = decode(elf.encoding, chunk.data() + i * entry);
      if (!function.is_function) continue;
      function.address &= ~thumb;
      search.offer(function);
    }
    if (got < want) return;
  }
}

}  // namespace

std::vector<NamedFunction> functions_around(Memory& file, const File& elf,
                                            std::span<const Address> addresses) {
  std::vector<NamedFunction> names(addresses.size());
  const Section* table = symbol_table(elf);
  if (table == nullptr || addresses.empty()) return names;
  std::vector<std::size_t> order(addresses.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return addresses[a] < addresses[b]; });
  std::vector<Address> sorted(addresses.begin(), addresses.end());
  std::sort(sorted.begin(), sorted.end());
  Search search(std::move(sorted));
  search_table(file, elf, *table, search);

  const Section& strings = elf.sections[table->link];
  WindowMemory windows(file, name_windows);  // names of neighbours are neighbours
  std::unordered_map<std::uint32_t, std::string> known;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Function& function = search.found()[i];
    if (!function.is_function || function.name >= strings.size) continue;
    const auto [name, is_new] = known.emplace(function.name, std::string());
    if (is_new)
      name->second = read_string(windows, strings.offset + function.name, limits::name_bytes,
                                 "a symbol's name")
                         .value_or(std::string());
    names[order[i]] = {name->second, function.address};
  }
  return names;
}

}  // namespace vitrine::elf
