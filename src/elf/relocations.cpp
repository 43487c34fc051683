#include "elf/relocations.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <map>

#include "base/limits.hpp"
#include "elf/file.hpp"
#include "elf/symbol_table.hpp"

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

namespace {

enum class Writes { load_base, symbol, symbol_from_here, nothing };

struct Type {
  std::uint16_t machine;
  std::uint32_t number;
  Writes writes;
  const char* name;
};

#define TYPE(machine, name, writes) \
  { machine, name, Writes::writes, #name }
constexpr Type types[] = {
    TYPE(EM_X86_64, R_X86_64_NONE, nothing),
    TYPE(EM_X86_64, R_X86_64_64, symbol),
    TYPE(EM_X86_64, R_X86_64_PC32, symbol_from_here),
    TYPE(EM_X86_64, R_X86_64_GLOB_DAT, symbol),
    TYPE(EM_X86_64, R_X86_64_RELATIVE, load_base),
    TYPE(EM_X86_64, R_X86_64_PC64, symbol_from_here),
    TYPE(EM_386, R_386_NONE, nothing),
    TYPE(EM_386, R_386_32, symbol),
    TYPE(EM_386, R_386_PC32, symbol_from_here),
    TYPE(EM_386, R_386_GLOB_DAT, symbol),
    TYPE(EM_386, R_386_RELATIVE, load_base),
    TYPE(EM_AARCH64, R_AARCH64_NONE, nothing),
    TYPE(EM_AARCH64, R_AARCH64_ABS64, symbol),
    TYPE(EM_AARCH64, R_AARCH64_PREL64, symbol_from_here),
    TYPE(EM_AARCH64, R_AARCH64_GLOB_DAT, symbol),
    TYPE(EM_AARCH64, R_AARCH64_RELATIVE, load_base),
};
#undef TYPE

const Type* find_type(std::uint16_t machine, std::uint32_t number) {
  const auto found = std::find_if(std::begin(types), std::end(types), [&](const Type& type) {
    return type.machine == machine && type.number == number;
  });
  return found == std::end(types) ? nullptr : found;
}

std::uint32_t relative_type(std::uint16_t machine) {
  for (const Type& type : types)
    if (type.machine == machine && type.writes == Writes::load_base) return type.number;
  return 0;
}

/// The entry of a relocation table of either kind and class.
struct Entry {
  std::uint64_t where, symbol;
  std::uint32_t type;
  std::optional<std::int64_t> addend;
};

Entry decode_entry(const Encoding& encoding, const std::byte* at, bool has_addend) {
  const std::size_t word = encoding.address_bytes();
  const std::uint64_t info = encoding.address(at + word);
  Entry entry{encoding.address(at), encoding.wide ? info >> 32 : info >> 8,
              static_cast<std::uint32_t>(encoding.wide ? info & UINT32_MAX : info & 255),
              std::nullopt};
  if (!has_addend) return entry;
  const std::uint64_t addend = encoding.address(at + 2 * word);
  entry.addend = encoding.wide ? static_cast<std::int64_t>(addend)
                               : static_cast<std::int32_t>(static_cast<std::uint32_t>(addend));
  return entry;
}

/// The same addresses, in ranges that ascend and do not meet.
std::vector<AddressRange> merged(std::span<const AddressRange> ranges) {
  std::vector<AddressRange> all(ranges.begin(), ranges.end());
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  std::vector<AddressRange> out;
  for (const AddressRange& range : all) {
    if (!out.empty() && range.begin <= out.back().end)
      out.back().end = std::max(out.back().end, range.end);
    else
      out.push_back(range);
  }
  return out;
}

/// What PT_DYNAMIC has, followed into the file.
class DynamicReader {
 public:
  DynamicReader(Memory& file, const File& elf, std::span<const AddressRange> ranges,
                DynamicRelocations& into)
      : file_(file), elf_(elf), ranges_(merged(ranges)), into_(into) {}

  void read() {
    if (!read_tags()) return;
    read_entries(DT_RELA, DT_RELASZ, true);
    read_entries(DT_REL, DT_RELSZ, false);
    read_entries(DT_JMPREL, DT_PLTRELSZ, tag(DT_PLTREL) == DT_RELA);
    read_packed();
  }

 private:
  static constexpr std::uint64_t dynamic_bytes = 64 * 1024;  // some 30 entries are usual
  static constexpr std::int64_t dt_relrsz = 35, dt_relr = 36;

  bool read_tags() {
    const auto segment = std::find_if(elf_.segments.begin(), elf_.segments.end(),
                                      [](const Segment& one) { return one.type == PT_DYNAMIC; });
    if (segment == elf_.segments.end()) return false;
    std::vector<std::byte> bytes(
        static_cast<std::size_t>(std::min(segment->file_size, dynamic_bytes)));
    bytes.resize(file_.read_some(segment->offset, bytes));
    const std::size_t word = elf_.encoding.address_bytes();
    for (std::size_t at = 0; at + 2 * word <= bytes.size(); at += 2 * word) {
      const std::uint64_t name = elf_.encoding.address(bytes.data() + at);
      if (name == DT_NULL) break;
      tags_.emplace(name, elf_.encoding.address(bytes.data() + at + word));
    }
    return true;
  }

  [[nodiscard]] std::uint64_t tag(std::int64_t name) const {
    const auto found = tags_.find(static_cast<std::uint64_t>(name));
    return found == tags_.end() ? 0 : found->second;
  }

  /// Calls `each` with the entries of a table, in pieces.
  template <class Each>
  void walk(std::int64_t table, std::int64_t size_tag, std::size_t entry, const Each& each) {
    const Address begin = tag(table);
    const std::uint64_t size = tag(size_tag) / entry * entry;
    if (begin == 0 || size == 0) return;
    const auto offset = file_offset(elf_.segments, begin, size, 0);
    if (!offset) {
      into_.problems.push_back(fmt::format(
          "its dynamic relocations, {} bytes at {}, are not in the file", size, hex(begin)));
      return;
    }
    constexpr std::uint64_t piece_entries = 4096;
    std::vector<std::byte> piece(piece_entries * entry);
    for (std::uint64_t at = 0; at < size; at += piece.size()) {
      const auto want = std::span(piece).first(
          static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), size - at)));
      const std::size_t got = file_.read_some(*offset + at, want);
      for (std::size_t i = 0; i + entry <= got; i += entry) {
        if (left_ == 0) {
          into_.problems.push_back(
              fmt::format("it has more than {} dynamic relocations", limits::relocations));
          return;
        }
        --left_;
        each(piece.data() + i);
      }
      if (got < want.size()) {
        into_.problems.emplace_back("the file ends within its dynamic relocations");
        return;
      }
    }
  }

  void read_entries(std::int64_t table, std::int64_t size_tag, bool has_addend) {
    const std::size_t entry = (has_addend ? 3 : 2) * elf_.encoding.address_bytes();
    walk(table, size_tag, entry, [&](const std::byte* at) {
      const Entry one = decode_entry(elf_.encoding, at, has_addend);
      if (wanted(one.where)) into_.relocations.push_back({one.where, one.type, value_of(one)});
    });
  }

  /// RELR: a word is an address (even), or marks which of the words that follow are meant too.
  void read_packed() {
    const std::size_t word = elf_.encoding.address_bytes();
    const std::size_t bits = 8 * word - 1;
    Address next = 0;
    walk(dt_relr, dt_relrsz, word, [&](const std::byte* at) {
      const std::uint64_t code = elf_.encoding.address(at);
      if ((code & 1) == 0) {
        add_packed(code);
        next = code + word;
        return;
      }
      for (std::size_t bit = 0; bit < bits; ++bit)
        if ((code >> (bit + 1) & 1) != 0) add_packed(next + bit * word);
      next += bits * word;
    });
  }

  void add_packed(Address where) {
    if (wanted(where))
      into_.relocations.push_back({where, relative_type(elf_.machine), word_at(where)});
  }

  [[nodiscard]] bool wanted(Address where) const {
    const auto after = std::upper_bound(
        ranges_.begin(), ranges_.end(), where,
        [](Address address, const AddressRange& range) { return address < range.begin; });
    return after != ranges_.begin() && where < std::prev(after)->end;
  }

  std::optional<std::uint64_t> value_of(const Entry& entry) {
    const Type* type = find_type(elf_.machine, entry.type);
    if (type == nullptr || type->writes == Writes::nothing) return std::nullopt;
    const auto addend = entry.addend ? std::optional(static_cast<std::uint64_t>(*entry.addend))
                                     : word_at(entry.where);
    if (!addend) return std::nullopt;
    if (type->writes == Writes::load_base) return addend;
    const auto symbol = symbol_value(entry.symbol);
    if (!symbol) return std::nullopt;
    return *symbol + *addend - (type->writes == Writes::symbol_from_here ? entry.where : 0);
  }

  std::optional<std::uint64_t> word_at(Address where) {
    std::array<std::byte, 8> bytes{};
    const std::size_t size = elf_.encoding.address_bytes();
    const auto offset = file_offset(elf_.segments, where, size, 0);
    if (!offset || file_.read_some(*offset, std::span(bytes).first(size)) < size)
      return std::nullopt;
    return elf_.encoding.address(bytes.data());
  }

  /// Nullopt: not defined in this file.
  std::optional<std::uint64_t> symbol_value(std::uint64_t index) {
    std::array<std::byte, sizeof(Elf64_Sym)> bytes{};
    const std::size_t size = symbol_bytes(elf_.encoding);
    const auto offset = file_offset(elf_.segments, tag(DT_SYMTAB) + index * size, size, 0);
    if (tag(DT_SYMTAB) == 0 || !offset ||
        file_.read_some(*offset, std::span(bytes).first(size)) < size)
      return std::nullopt;
    const TableSymbol symbol = decode_symbol(elf_.encoding, bytes.data());
    return symbol.section == SHN_UNDEF ? std::nullopt : std::optional(symbol.value);
  }

  Memory& file_;
  const File& elf_;
  std::vector<AddressRange> ranges_;  ///< ascending, apart
  DynamicRelocations& into_;
  std::map<std::uint64_t, std::uint64_t> tags_;
  std::size_t left_ = limits::relocations;
};

}  // namespace

DynamicRelocations dynamic_relocations(Memory& file, const File& elf,
                                       std::span<const AddressRange> ranges) {
  DynamicRelocations found;
  DynamicReader(file, elf, ranges, found).read();
  return found;
}

std::map<std::size_t, std::vector<SectionRelocation>> section_relocations(
    Memory& file, const File& elf, std::span<const std::size_t> sections) {
  std::map<std::size_t, std::vector<SectionRelocation>> found;
  for (const std::size_t index : sections) found[index];
  const auto symbols = SymbolTable::read(file, elf, SHT_SYMTAB);
  std::size_t left = limits::relocations;
  for (const Section& section : elf.sections) {
    const bool has_addend = section.type == SHT_RELA;
    const auto target = found.find(section.info);
    if ((!has_addend && section.type != SHT_REL) || target == found.end()) continue;
    const std::size_t entry = (has_addend ? 3 : 2) * elf.encoding.address_bytes();
    const auto read = read_section(file, elf, section, left * entry);
    if (!read) continue;
    for (std::size_t at = 0; at + entry <= read->bytes.size(); at += entry, --left) {
      const Entry one = decode_entry(elf.encoding, read->bytes.data() + at, has_addend);
      SectionRelocation relocation{one.where, one.type, {}, one.addend.value_or(0)};
      if (symbols && one.symbol < symbols->size())
        relocation.symbol = symbols->name(symbols->at(static_cast<std::size_t>(one.symbol)))
                                .substr(0, limits::name_bytes);
      target->second.push_back(std::move(relocation));
    }
  }
  for (auto& [index, relocations] : found)
    std::stable_sort(relocations.begin(), relocations.end(),
                     [](const auto& a, const auto& b) { return a.offset < b.offset; });
  return found;
}

std::string relocation_name(std::uint16_t machine, std::uint32_t type) {
  const Type* known = find_type(machine, type);
  return known == nullptr ? fmt::format("type {}", type) : known->name;
}

}  // namespace vitrine::elf
