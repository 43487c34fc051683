#include "usdt/symbols.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "base/text.hpp"
#include "usdt/object_writer.hpp"

namespace vitrine::usdt {
namespace {

struct Candidate {
  Place start;
  std::uint64_t end;
  int rank;  ///< the higher, the better
  std::uint32_t index;
};

int rank_of(const Symbol& symbol) {
  // "f@VERS_1" is one of the names that .symver gives to f.
  if (symbol.name.find('@') != symbol.name.npos) return 0;
  if (symbol.binding == STB_LOCAL) return 1;
  return symbol.binding == STB_WEAK ? 2 : 3;
}

bool is_function(const Symbol& symbol) {
  return symbol.type == STT_FUNC || symbol.type == STT_GNU_IFUNC;
}

/// Labels that are there for people: not a compiler's own, nor the mapping symbols of aarch64.
bool is_label(const Symbol& symbol) {
  return (is_function(symbol) || symbol.type == STT_NOTYPE) && !symbol.name.empty() &&
         !symbol.name.starts_with(".L") && !symbol.name.starts_with('$');
}

/// The worst of one address first, so that a stack has the best on top.
void sort(std::vector<Candidate>& candidates) {
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    return std::tuple(a.start, a.rank, ~a.index) < std::tuple(b.start, b.rank, ~b.index);
  });
}

std::string section_title(const ObjectFile& object, std::uint32_t section) {
  const auto name = object.section_name(section);
  return name.empty() ? object.describe(section) : std::string(name);
}

/// Goes through the places in order, with the candidates that begin before each.
class Sweep {
 public:
  explicit Sweep(std::vector<Candidate> candidates) : candidates_(std::move(candidates)) {
    sort(candidates_);
  }

  /// The innermost that holds the place. One that has ended is not looked at again.
  const Candidate* holding(const Place& place) {
    for (; next_ < candidates_.size() && candidates_[next_].start <= place; ++next_)
      open_.push_back(&candidates_[next_]);
    while (!open_.empty() &&
           (open_.back()->start.section != place.section || open_.back()->end <= place.offset))
      open_.pop_back();
    return open_.empty() ? nullptr : open_.back();
  }

 private:
  std::vector<Candidate> candidates_;
  std::vector<const Candidate*> open_;
  std::size_t next_ = 0;
};

}  // namespace

std::vector<Function> containing_functions(const ObjectFile& object,
                                           std::span<const Place> places) {
  std::unordered_set<std::uint32_t> wanted;
  for (const Place& place : places) wanted.insert(place.section);
  std::vector<Candidate> functions, labels;
  for (std::uint32_t i = 0; i < object.symbols().size(); ++i) {
    const Symbol& symbol = object.symbols()[i];
    if (symbol.section == 0 || !wanted.contains(symbol.section) || !is_label(symbol)) continue;
    const Place start{symbol.section, symbol.value};
    if (is_function(symbol) && symbol.size > 0)
      functions.push_back(
          {start, start.offset + std::min(symbol.size, ~start.offset), rank_of(symbol), i});
    labels.push_back({start, ~std::uint64_t{0}, rank_of(symbol), i});
  }
  Sweep in_functions(std::move(functions)), after_labels(std::move(labels));
  std::vector<Function> found;
  found.reserve(places.size());
  for (const Place& place : places) {
    const Candidate* best = in_functions.holding(place);
    const Candidate* label = after_labels.holding(place);
    if (best == nullptr) best = label;
    if (best == nullptr) {
      found.push_back({section_title(object, place.section), {place.section, 0}});
      continue;
    }
    const auto name = object.symbols()[best->index].name;
    found.push_back({std::string(name.substr(0, name.find('@'))), best->start});
  }
  return found;
}

namespace {

/// "$dtrace<key>.<function>", or that with ".<number>" where the object has several of the name:
/// how well the alias fits, 0 for not.
int fits(std::string_view alias, std::string_view function) {
  const auto name = alias.substr(std::min(alias.find('.'), alias.size() - 1) + 1);
  if (name == function) return 2;
  if (!name.starts_with(function) || !name.substr(function.size()).starts_with('.')) return 0;
  const auto number = name.substr(function.size() + 1);
  return !number.empty() && number.find_first_not_of("0123456789") == number.npos ? 1 : 0;
}

/// "$dtrace<key>.<function>+<number>"
bool is_of_site(std::string_view alias) {
  const std::size_t plus = alias.rfind('+');
  return plus != alias.npos && plus + 1 < alias.size() &&
         alias.find_first_not_of("0123456789", plus + 1) == alias.npos;
}

}  // namespace

std::uint64_t ObjectKey::get() {
  if (!key_) key_ = fnv1a(salt_, fnv1a<std::uint64_t>(bytes_));
  return *key_;
}

Aliases name_functions(const ObjectFile& object, std::span<const Function> functions,
                       ObjectKey& key, unsigned char binding) {
  std::multimap<Place, std::string_view> known;
  std::unordered_set<std::string> taken;
  for (const Symbol& symbol : object.symbols()) {
    if (!symbol.name.starts_with(alias_prefix)) continue;
    taken.emplace(symbol.name);
    if (symbol.binding == binding && symbol.section != 0)
      known.emplace(Place{symbol.section, symbol.value}, symbol.name);
  }
  Aliases aliases;
  for (std::size_t i = 0; i < functions.size(); ++i) {
    const std::string suffix = "." + functions[i].name;
    std::string name;
    const auto [from, to] = known.equal_range(functions[i].start);
    int best = 0;
    for (auto one = from; one != to; ++one) {
      const int fit = fits(one->second, functions[i].name);
      if (fit <= best) continue;
      best = fit;
      name = one->second;
    }
    if (name.empty()) {
      const std::string wanted = fmt::format("{}{:016x}{}", alias_prefix, key.get(), suffix);
      name = wanted;
      // Local functions of one name, in an object that ld -r made of several.
      for (unsigned n = 2; !taken.insert(name).second; ++n) name = fmt::format("{}.{}", wanted, n);
      aliases.added.push_back(i);
    }
    aliases.names.push_back(std::move(name));
  }
  return aliases;
}

Aliases name_sites(const ObjectFile& object, std::span<const Function> sites, ObjectKey& key,
                   unsigned char binding) {
  Aliases aliases;
  if (sites.empty()) return aliases;
  std::map<Place, std::string_view> known;
  std::unordered_set<std::string> taken;
  for (const Symbol& symbol : object.symbols()) {
    if (!symbol.name.starts_with(alias_prefix) || !is_of_site(symbol.name)) continue;
    taken.emplace(symbol.name);
    if (symbol.binding == binding && symbol.section != 0)
      known.emplace(Place{symbol.section, symbol.value}, symbol.name);
  }
  std::unordered_map<std::string_view, unsigned> numbers;
  for (std::size_t i = 0; i < sites.size(); ++i) {
    if (const auto at = known.find(sites[i].start); at != known.end()) {
      aliases.names.emplace_back(at->second);
      continue;
    }
    std::string name;
    do {
      name = fmt::format("{}{:016x}.{}+{}", alias_prefix, key.get(), sites[i].name,
                         numbers[sites[i].name]++);
    } while (!taken.insert(name).second);
    aliases.added.push_back(i);
    aliases.names.push_back(std::move(name));
  }
  return aliases;
}

namespace {

template <class Symbol>
void append_symbol(std::vector<std::byte>& table, std::size_t name, const NewSymbol& added) {
  const Place& place = added.place;
  Symbol symbol{};
  symbol.st_name = static_cast<Elf32_Word>(name);
  symbol.st_info = static_cast<unsigned char>(ELF64_ST_INFO(added.binding, STT_NOTYPE));
  symbol.st_other = STV_HIDDEN;
  symbol.st_shndx = place.section < SHN_LORESERVE ? static_cast<Elf32_Half>(place.section)
                                                  : static_cast<Elf32_Half>(SHN_XINDEX);
  symbol.st_value = static_cast<decltype(symbol.st_value)>(place.offset);
  append(table, symbol);
}

std::vector<std::byte> copy(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

/// Where in the file a section header keeps where its section is.
template <class Header, class SectionHeader>
void move_section(std::vector<std::byte>& bytes, std::uint32_t section, std::size_t offset,
                  std::size_t size) {
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  std::byte* at = bytes.data() + header.e_shoff + section * sizeof(SectionHeader);
  SectionHeader moved;
  std::memcpy(&moved, at, sizeof moved);
  moved.sh_offset = static_cast<decltype(moved.sh_offset)>(offset);
  moved.sh_size = static_cast<decltype(moved.sh_size)>(size);
  std::memcpy(at, &moved, sizeof moved);
}

void place(std::vector<std::byte>& bytes, bool wide, std::uint32_t section,
           std::span<const std::byte> content) {
  bytes.resize((bytes.size() + 7) / 8 * 8);
  const std::size_t offset = bytes.size();
  bytes.insert(bytes.end(), content.begin(), content.end());
  if (wide)
    move_section<Elf64_Ehdr, Elf64_Shdr>(bytes, section, offset, content.size());
  else
    move_section<Elf32_Ehdr, Elf32_Shdr>(bytes, section, offset, content.size());
}

}  // namespace

Result<void> append_symbols(std::vector<std::byte>& bytes, const ObjectFile& object,
                            std::span<const NewSymbol> symbols) {
  if (symbols.empty()) return {};
  const std::uint32_t names_section = object.sections()[object.symbol_table()].link;
  auto table = copy(object.content(object.symbol_table()));
  auto names = copy(object.content(names_section));
  std::vector<std::byte> wide_indices;
  if (object.wide_indices() != 0) wide_indices = copy(object.content(object.wide_indices()));
  for (const NewSymbol& symbol : symbols) {
    if (symbol.place.section >= SHN_LORESERVE && object.wide_indices() == 0)
      return fail(ErrorCode::unsupported, object.describe(symbol.place.section) +
                                              ": no symbol can refer to the new sections, because "
                                              "the extended section table is missing");
    if (object.machine().wide)
      append_symbol<Elf64_Sym>(table, names.size(), symbol);
    else
      append_symbol<Elf32_Sym>(table, names.size(), symbol);
    if (object.wide_indices() != 0)
      append(wide_indices,
             symbol.place.section < SHN_LORESERVE ? Elf32_Word{0} : symbol.place.section);
    const auto name = std::as_bytes(std::span(symbol.name));
    names.insert(names.end(), name.begin(), name.end());
    names.push_back(std::byte{0});
  }
  const std::size_t end = bytes.size() + table.size() + names.size() + wide_indices.size();
  if (end > std::numeric_limits<std::int32_t>::max() && !object.machine().wide)
    return fail(ErrorCode::limit, "it would exceed the 2 GiB of its format");
  const bool wide = object.machine().wide;
  place(bytes, wide, object.symbol_table(), table);
  place(bytes, wide, names_section, names);
  if (object.wide_indices() != 0) place(bytes, wide, object.wide_indices(), wide_indices);
  return {};
}

}  // namespace vitrine::usdt
