#include "elf/symbols.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <unordered_map>

#include "base/limits.hpp"
#include "base/memory.hpp"
#include "elf/file.hpp"
#include "elf/image.hpp"
#include "elf/symbol_table.hpp"

namespace vitrine::elf {
namespace {

std::uint32_t gnu_hash_of(std::string_view name) {
  std::uint32_t hash = 5381;
  for (const char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
  return hash;
}

std::uint32_t sysv_hash_of(std::string_view name) {
  std::uint32_t hash = 0;
  for (const char c : name) {
    hash = (hash << 4) + static_cast<unsigned char>(c);
    hash ^= (hash >> 24) & 0xf0;
  }
  return hash & 0x0fffffff;
}

std::optional<Symbol> read_symbol(Memory& memory, const Dynamic& dynamic, std::uint32_t index) {
  const std::uint64_t offset = std::uint64_t{index} * sizeof(Elf64_Sym);
  if (offset + sizeof(Elf64_Sym) > dynamic.symbols.size) return std::nullopt;
  const auto raw = memory.read_value<Elf64_Sym>(dynamic.symbols.address + offset, "a symbol");
  return raw ? std::optional(make_symbol(index, *raw)) : std::nullopt;
}

bool string_is(Memory& memory, const Table& strings, std::uint64_t offset, std::string_view name) {
  std::array<char, 128> text;
  const std::size_t size = name.size() + 1;
  if (size > text.size() || offset > strings.size || strings.size - offset < size) return false;
  return memory.read_some(strings.address + offset,
                          std::as_writable_bytes(std::span(text).first(size))) == size &&
         text[name.size()] == '\0' && std::string_view(text.data(), name.size()) == name;
}

std::optional<Symbol> defined_as(Memory& memory, const Dynamic& dynamic, std::uint32_t index,
                                 std::string_view name) {
  const auto symbol = read_symbol(memory, dynamic, index);
  if (!symbol || !symbol->defined() || !has_name(memory, dynamic, index, name)) return std::nullopt;
  return symbol;
}

// DT_GNU_HASH: u32 nbuckets, symbol_offset, bloom_words, bloom_shift; u64 bloom[bloom_words];
// u32 buckets[nbuckets]; u32 chain[], whose entry i is for symbol symbol_offset + i and has bit 0
// set when it is the last of its bucket.
class GnuHash {
 public:
  static Result<GnuHash> read(Memory& memory, const Dynamic& dynamic) {
    GnuHash table(memory, dynamic);
    auto header = TRY(memory.read_value<Header>(dynamic.gnu_hash.address, "DT_GNU_HASH"));
    table.header_ = header;
    const std::uint64_t bytes =
        sizeof(Header) + std::uint64_t{8} * header.bloom_words + std::uint64_t{4} * header.buckets;
    if (header.bloom_words == 0 || bytes > dynamic.gnu_hash.size)
      return fail(ErrorCode::malformed,
                  fmt::format("DT_GNU_HASH at {:#x} has {} buckets and {} Bloom words",
                              dynamic.gnu_hash.address, header.buckets, header.bloom_words));
    table.bloom_ = dynamic.gnu_hash.address + sizeof(Header);
    table.buckets_ = table.bloom_ + std::uint64_t{8} * header.bloom_words;
    table.chain_ = table.buckets_ + std::uint64_t{4} * header.buckets;
    return table;
  }

  std::vector<std::optional<Symbol>> find(std::span<const std::string_view> names) {
    std::vector<std::uint64_t> words(names.size());
    std::vector<ReadRequest> requests;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const Address word = bloom_ + 8ULL * (gnu_hash_of(names[i]) / 64 % header_.bloom_words);
      requests.push_back({word, std::as_writable_bytes(std::span(&words[i], 1)), 0});
    }
    memory_.read(requests);
    std::vector<std::optional<Symbol>> found(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::uint32_t hash = gnu_hash_of(names[i]);
      if (requests[i].complete() && passes(words[i], hash)) found[i] = in_bucket(names[i], hash);
    }
    return found;
  }

 private:
  struct Header {
    std::uint32_t buckets, symbol_offset, bloom_words, bloom_shift;
  };

  GnuHash(Memory& memory, const Dynamic& dynamic) : memory_(memory), dynamic_(dynamic) {}

  bool passes(std::uint64_t word, std::uint32_t hash) const {
    const std::uint32_t second = header_.bloom_shift < 32 ? hash >> header_.bloom_shift : 0;
    return ((word >> (hash % 64)) & (word >> (second % 64)) & 1) != 0;
  }

  std::optional<Symbol> in_bucket(std::string_view name, std::uint32_t hash) {
    if (header_.buckets == 0) return std::nullopt;
    const auto first =
        memory_.read_value<std::uint32_t>(buckets_ + 4ULL * (hash % header_.buckets), "a bucket");
    if (!first || *first < header_.symbol_offset) return std::nullopt;
    std::array<std::uint32_t, 16> entries;
    const std::uint64_t end = std::uint64_t{*first} + limits::symbols;
    for (std::uint64_t index = *first; index < end && index <= UINT32_MAX;) {
      const Address at = chain_ + 4 * (index - header_.symbol_offset);
      const std::size_t got =
          memory_.read_some(at, std::as_writable_bytes(std::span(entries))) / sizeof entries[0];
      if (got == 0) break;
      for (std::size_t i = 0; i < got; ++i, ++index) {
        if ((entries[i] | 1) == (hash | 1))
          if (auto symbol = defined_as(memory_, dynamic_, static_cast<std::uint32_t>(index), name))
            return symbol;
        if ((entries[i] & 1) != 0) return std::nullopt;
      }
    }
    return std::nullopt;
  }

  Memory& memory_;
  const Dynamic& dynamic_;
  Header header_{};
  Address bloom_ = 0;
  Address buckets_ = 0;
  Address chain_ = 0;
};

// DT_HASH: u32 nbucket, nchain, bucket[nbucket], chain[nchain]; 0 ends a chain.
Result<std::optional<Symbol>> find_by_hash(Memory& memory, const Dynamic& dynamic,
                                           std::string_view name) {
  const Address table = dynamic.hash.address;
  const auto counts = TRY(memory.read_value<std::array<std::uint32_t, 2>>(table, "DT_HASH"));
  const auto [buckets, chains] = counts;
  if (buckets == 0 || 8 + 4 * (std::uint64_t{buckets} + chains) > dynamic.hash.size)
    return fail(ErrorCode::malformed, fmt::format("DT_HASH at {:#x} has {} buckets and {} chains",
                                                  table, buckets, chains));
  const auto word = [&](std::uint64_t n) {
    return memory.read_value<std::uint32_t>(table + 8 + 4 * n, "DT_HASH");
  };
  auto index = word(sysv_hash_of(name) % buckets);
  const std::size_t steps = std::min<std::size_t>(chains, limits::symbols);
  for (std::size_t i = 0; i < steps && index && *index != 0 && *index < chains; ++i) {
    if (auto symbol = defined_as(memory, dynamic, *index, name)) return symbol;
    index = word(std::uint64_t{buckets} + *index);
  }
  return std::nullopt;
}

}  // namespace

Symbol make_symbol(std::uint32_t index, const Elf64_Sym& raw) {
  return {index,
          raw.st_value,
          raw.st_size,
          static_cast<std::uint8_t>(ELF64_ST_TYPE(raw.st_info)),
          static_cast<std::uint8_t>(ELF64_ST_BIND(raw.st_info)),
          raw.st_shndx,
          static_cast<std::uint8_t>(ELF64_ST_VISIBILITY(raw.st_other))};
}

Result<std::vector<std::optional<Symbol>>> find_symbols(Memory& memory, const Dynamic& dynamic,
                                                        std::span<const std::string_view> names) {
  if (dynamic.gnu_hash)
    return GnuHash::read(memory, dynamic).map([&](GnuHash table) { return table.find(names); });
  if (!dynamic.hash) return fail(ErrorCode::not_found, "the module has no symbol hash table");
  std::vector<std::optional<Symbol>> found;
  for (const std::string_view name : names) {
    auto symbol = TRY(find_by_hash(memory, dynamic, name));
    found.push_back(symbol);
  }
  return found;
}

Result<std::optional<Symbol>> find_symbol(Memory& memory, const Dynamic& dynamic,
                                          std::string_view name) {
  return find_symbols(memory, dynamic, {&name, 1}).map([](auto found) { return found.front(); });
}

bool has_name(Memory& memory, const Dynamic& dynamic, std::uint32_t index, std::string_view name) {
  const std::uint64_t offset = std::uint64_t{index} * sizeof(Elf64_Sym);
  if (offset + sizeof(Elf64_Sym) > dynamic.symbols.size) return false;
  const auto raw = memory.read_value<Elf64_Sym>(dynamic.symbols.address + offset, "a symbol");
  return raw && string_is(memory, dynamic.strings, raw->st_name, name);
}

namespace {

constexpr std::size_t chunk_bytes = 256 * 1024;
constexpr std::size_t occurrences_max = 4096;  // a linker writes each name once

// Where in the string table each of `names` occurs: st_name → index in `names`. A name may also be
// the tail of a longer one.
Result<std::map<std::uint64_t, std::size_t>> find_strings(Memory& file, const Section& strings,
                                                          std::span<const std::string_view> names) {
  if (strings.size > limits::symbol_name_table)
    return fail(ErrorCode::limit, fmt::format("{} bytes of symbol names", strings.size));
  std::size_t overlap = 0;
  for (const std::string_view name : names) overlap = std::max(overlap, name.size());
  std::map<std::uint64_t, std::size_t> found;
  std::string chunk(chunk_bytes + overlap, '\0');
  for (std::uint64_t first = 0; first < strings.size; first += chunk_bytes) {
    const std::size_t size =
        static_cast<std::size_t>(std::min<std::uint64_t>(chunk.size(), strings.size - first));
    const auto bytes = std::span(chunk).first(size);
    TRY(file.read_exact(strings.offset + first, std::as_writable_bytes(bytes), ".strtab"));
    const std::string_view text(bytes.data(), bytes.size());
    for (std::size_t i = 0; i < names.size(); ++i)
      for (auto at = text.find(names[i]); at != std::string_view::npos;
           at = text.find(names[i], at + 1))
        if (at + names[i].size() < text.size() && text[at + names[i].size()] == '\0' &&
            found.size() < occurrences_max)
          found[first + at] = i;
  }
  return found;
}

}  // namespace

Result<std::vector<std::optional<Symbol>>> find_file_symbols(
    Memory& file, std::span<const std::string_view> names) {
  TRY(read_header(file, 0));
  const auto elf = TRY(read_file(file));
  const auto& sections = elf.sections;
  const auto table = std::find_if(sections.begin(), sections.end(), [](const Section& section) {
    return section.type == SHT_SYMTAB;
  });
  if (table == sections.end()) {
    if (sections.empty() && !elf.problems.empty())
      return fail(ErrorCode::malformed, elf.problems.front());
    return fail(ErrorCode::not_found, "the file has no .symtab");
  }
  if (table->link >= sections.size())
    return fail(ErrorCode::malformed, fmt::format(".symtab links to section {}", table->link));
  const auto strings = TRY(find_strings(file, sections[table->link], names));

  const std::uint64_t count = table->size / symbol_bytes(elf.encoding);
  if (count > limits::symbols) return fail(ErrorCode::limit, fmt::format("{} symbols", count));
  std::vector<std::optional<Symbol>> found(names.size());
  if (strings.empty()) return found;
  TRY(visit_symbols(file, elf, *table, count, [&](std::size_t index, const TableSymbol& one) {
    const auto name = strings.find(one.name);
    if (name == strings.end() || one.section == SHN_UNDEF) return;
    auto& slot = found[name->second];
    if (!slot || slot->binding == STB_LOCAL)
      slot = Symbol{static_cast<std::uint32_t>(index),
                    one.value,
                    one.size,
                    one.type,
                    one.binding,
                    one.section,
                    one.visibility};
  }));
  return found;
}

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
