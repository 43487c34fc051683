#include "elf/functions.hpp"

#include <elf.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "base/limits.hpp"
#include "base/window_memory.hpp"
#include "elf/image.hpp"
#include "elf/symbol_table.hpp"

namespace vitrine::elf {
namespace {

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
  const std::uint64_t thumb = elf.machine == EM_ARM ? 1 : 0;
  // What cannot be read is absent.
  static_cast<void>(visit_symbols(
      file, elf, table, limits::file_symbols, [&](std::size_t, const TableSymbol& symbol) {
        if (is_function(symbol))
          search.offer({symbol.name, symbol.value & ~thumb, symbol.size, true});
      }));
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
