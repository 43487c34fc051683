#include "elf/symbols.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/limits.hpp"

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

}  // namespace vitrine::elf
