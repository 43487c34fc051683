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

/// Values at addresses, by one batch; nullopt: not readable.
template <class T>
std::vector<std::optional<T>> read_values(Memory& memory, std::span<const Address> places) {
  std::vector<T> values(places.size());
  std::vector<ReadRequest> requests;
  for (std::size_t i = 0; i < places.size(); ++i)
    requests.push_back({places[i], std::as_writable_bytes(std::span(&values[i], 1)), 0});
  memory.read(requests);
  std::vector<std::optional<T>> read(places.size());
  for (std::size_t i = 0; i < places.size(); ++i)
    if (requests[i].complete()) read[i] = values[i];
  return read;
}

/// What is expected at an offset of a string table.
struct Text {
  std::uint64_t offset = 0;
  std::string_view name;
};

/// Which of them are there, by one batch of reads.
std::vector<bool> strings_are(Memory& memory, const Table& strings, std::span<const Text> texts) {
  constexpr std::size_t max_bytes = 128;
  std::vector<std::array<char, max_bytes>> read(texts.size());
  std::vector<ReadRequest> requests;
  std::vector<std::size_t> asked;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::size_t size = texts[i].name.size() + 1;
    const std::uint64_t offset = texts[i].offset;
    if (size > max_bytes || offset > strings.size || strings.size - offset < size) continue;
    requests.push_back(
        {strings.address + offset, std::as_writable_bytes(std::span(read[i]).first(size)), 0});
    asked.push_back(i);
  }
  memory.read(requests);
  std::vector<bool> equal(texts.size());
  for (std::size_t n = 0; n < asked.size(); ++n) {
    const std::string_view name = texts[asked[n]].name;
    const std::array<char, max_bytes>& text = read[asked[n]];
    equal[asked[n]] = requests[n].complete() && text[name.size()] == '\0' &&
                      std::string_view(text.data(), name.size()) == name;
  }
  return equal;
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

  /// Each step is one batch of reads for all names.
  std::vector<std::optional<Symbol>> find(std::span<const std::string_view> names) {
    std::vector<std::optional<Symbol>> found(names.size());
    std::vector<Chain> chains = enter_buckets(pass_filter(names));
    while (!chains.empty()) {
      look_up(read_entries(chains), names, found);
      std::erase_if(chains, [&](const Chain& chain) { return found[chain.name].has_value(); });
    }
    return found;
  }

 private:
  struct Header {
    std::uint32_t buckets, symbol_offset, bloom_words, bloom_shift;
  };

  /// The search for a name: which of them, and what is next in the chain of its bucket.
  struct Chain {
    std::size_t name = 0;
    std::uint32_t hash = 0;
    std::uint64_t index = 0, end = 0;
  };

  /// A symbol whose name has the hash that is searched.
  struct Candidate {
    std::size_t name = 0;
    std::uint32_t index = 0;
  };

  GnuHash(Memory& memory, const Dynamic& dynamic) : memory_(memory), dynamic_(dynamic) {}

  bool passes(std::uint64_t word, std::uint32_t hash) const {
    const std::uint32_t second = header_.bloom_shift < 32 ? hash >> header_.bloom_shift : 0;
    return ((word >> (hash % 64)) & (word >> (second % 64)) & 1) != 0;
  }

  std::vector<Chain> pass_filter(std::span<const std::string_view> names) {
    std::vector<Chain> all;
    std::vector<Address> places;
    for (std::size_t i = 0; i < names.size() && header_.buckets != 0; ++i) {
      const std::uint32_t hash = gnu_hash_of(names[i]);
      all.push_back({i, hash, 0, 0});
      places.push_back(bloom_ + 8ULL * (hash / 64 % header_.bloom_words));
    }
    const auto words = read_values<std::uint64_t>(memory_, places);
    std::vector<Chain> passed;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (words[i] && passes(*words[i], all[i].hash)) passed.push_back(all[i]);
    return passed;
  }

  std::vector<Chain> enter_buckets(std::span<const Chain> chains) {
    std::vector<Address> places;
    for (const Chain& chain : chains)
      places.push_back(buckets_ + 4ULL * (chain.hash % header_.buckets));
    const auto firsts = read_values<std::uint32_t>(memory_, places);
    std::vector<Chain> entered;
    for (std::size_t i = 0; i < chains.size(); ++i) {
      if (!firsts[i] || *firsts[i] < header_.symbol_offset) continue;
      const std::uint64_t first = *firsts[i];
      const std::uint64_t end = std::min<std::uint64_t>(first + limits::symbols, UINT32_MAX + 1ULL);
      entered.push_back({chains[i].name, chains[i].hash, first, end});
    }
    return entered;
  }

  /// The next of each chain. Those of `chains` that end are removed.
  std::vector<Candidate> read_entries(std::vector<Chain>& chains) {
    std::vector<std::array<std::uint32_t, 16>> entries(chains.size());
    std::vector<ReadRequest> requests;
    for (std::size_t i = 0; i < chains.size(); ++i)
      requests.push_back({chain_ + 4 * (chains[i].index - header_.symbol_offset),
                          std::as_writable_bytes(std::span(entries[i])), 0});
    memory_.read(requests);
    std::vector<Candidate> candidates;
    std::vector<Chain> going_on;
    for (std::size_t i = 0; i < chains.size(); ++i) {
      const std::span<const std::uint32_t> read =
          std::span(entries[i]).first(requests[i].got / sizeof entries[i][0]);
      if (goes_on_after(chains[i], read, candidates)) going_on.push_back(chains[i]);
    }
    chains = std::move(going_on);
    return candidates;
  }

  /// Goes along `entries`, which are next in `chain`. Returns whether it goes on after them.
  static bool goes_on_after(Chain& chain, std::span<const std::uint32_t> entries,
                            std::vector<Candidate>& candidates) {
    for (const std::uint32_t entry : entries) {
      if ((entry | 1) == (chain.hash | 1))
        candidates.push_back({chain.name, static_cast<std::uint32_t>(chain.index)});
      if ((entry & 1) != 0 || ++chain.index >= chain.end) return false;
    }
    return !entries.empty();
  }

  void look_up(std::span<const Candidate> candidates, std::span<const std::string_view> names,
               std::vector<std::optional<Symbol>>& found) {
    std::vector<Candidate> there;
    std::vector<Address> places;
    for (const Candidate& one : candidates) {
      const std::uint64_t offset = std::uint64_t{one.index} * sizeof(Elf64_Sym);
      if (offset + sizeof(Elf64_Sym) > dynamic_.symbols.size) continue;
      there.push_back(one);
      places.push_back(dynamic_.symbols.address + offset);
    }
    const auto symbols = read_values<Elf64_Sym>(memory_, places);
    std::vector<Text> texts;
    for (std::size_t i = 0; i < there.size(); ++i)
      texts.push_back({symbols[i] ? symbols[i]->st_name : 0, names[there[i].name]});
    const auto equal = strings_are(memory_, dynamic_.strings, texts);
    for (std::size_t i = 0; i < there.size(); ++i) {
      if (!symbols[i] || !equal[i] || found[there[i].name]) continue;
      const Symbol symbol = make_symbol(there[i].index, *symbols[i]);
      if (symbol.defined()) found[there[i].name] = symbol;
    }
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
  if (!raw) return false;
  const Text text{raw->st_name, name};
  return strings_are(memory, dynamic.strings, {&text, 1}).front();
}

namespace {

constexpr std::size_t chunk_bytes = 32 * 1024;
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
