#include "symbol/function_symbols.hpp"

#include <elf.h>
#include <lzma.h>

#include <algorithm>
#include <queue>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/limits.hpp"
#include "base/memory.hpp"
#include "base/redaction.hpp"
#include "base/text.hpp"
#include "elf/file.hpp"
#include "elf/image.hpp"
#include "elf/packed.hpp"
#include "elf/symbols.hpp"
#include "sandbox/worker.hpp"

namespace vitrine::symbol {

std::string content_hash(Memory& file, std::uint64_t size) {
  constexpr std::uint64_t end_bytes = 4096;
  constexpr std::size_t hash_bytes = 16;
  const std::uint64_t part = std::min(size, end_bytes);
  std::vector<std::byte> bytes(static_cast<std::size_t>(2 * part + sizeof size));
  const auto first = std::span(bytes).first(static_cast<std::size_t>(part));
  const auto last = std::span(bytes).subspan(first.size(), first.size());
  if (file.read_some(0, first) != first.size() || file.read_some(size - part, last) != last.size())
    return {};
  for (std::size_t i = 0; i < sizeof size; ++i)
    bytes[bytes.size() - 1 - i] = static_cast<std::byte>(size >> 8 * i & 0xff);
  const auto digest = sha256(bytes);
  return hex_text(std::span(digest).first(hash_bytes));
}

template <pack::Of<ExecutableFacts> T>
auto fields(T& facts) {
  auto& [program_headers, tls, symbols] = facts;
  return std::tie(program_headers, tls, symbols);
}

namespace {

using SlotNames = std::vector<std::string>;

/// In a worker.
Result<ExecutableFacts> parse_executable(const SlotNames& names, FileDescriptor descriptor) {
  const auto file = TRY(sandbox::FileMemory::from(std::move(descriptor)));
  const auto image = TRY(elf::read_image(*file, 0));
  const auto headers = std::as_bytes(std::span(image.segments));
  const auto tls = elf::tls_segment(image);
  const std::vector<std::string_view> wanted(names.begin(), names.end());
  return ExecutableFacts{{headers.begin(), headers.end()},
                         tls ? *tls : std::nullopt,
                         elf::find_file_symbols(*file, wanted)};
}

}  // namespace

Result<ExecutableFacts> read_executable(sandbox::FileMemory& file,
                                        std::span<const std::string_view> names) {
  auto& parser = sandbox::Parser::of_this_thread();
  auto facts =
      parser.ask<&parse_executable>(SlotNames(names.begin(), names.end()), file.descriptor());
  // One definition a name, or none: callers count on it.
  if (facts && facts->symbols && facts->symbols->size() != names.size())
    return parser.invalid_response();
  return facts;
}

const Result<ExecutableFacts>& ExecutableSymbols::find(sandbox::FileMemory& file,
                                                       std::span<const std::string_view> names) {
  const auto known = known_.find(file.identity());
  if (known != known_.end()) return known->second;
  auto facts = read_executable(file, names);
  if (!facts && facts.error().code == ErrorCode::limit &&
      sandbox::Parser::of_this_thread().has_short_time())
    return cut_short_ = std::move(facts);
  return known_.emplace(file.identity(), std::move(facts)).first->second;
}

void Intervals::add(Address start, Address end, std::uint32_t value, std::uint64_t priority) {
  if (start < end) added_.push_back({start, end, priority, value});
}

/// One pass over all starts and ends, with those that are open on a heap: the piece up to the next
/// of them belongs to the topmost. At most two pieces come of an interval.
void Intervals::build() {
  std::stable_sort(added_.begin(), added_.end(),
                   [](const Added& a, const Added& b) { return a.start < b.start; });
  const auto below = [this](std::size_t a, std::size_t b) {
    return std::pair(added_[a].priority, a) < std::pair(added_[b].priority, b);
  };
  std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(below)> open(below);
  Address at = 0;
  for (std::size_t next = 0; next < added_.size() || !open.empty();) {
    if (open.empty()) at = std::max(at, added_[next].start);
    while (next < added_.size() && added_[next].start <= at) open.push(next++);
    while (!open.empty() && added_[open.top()].end <= at) open.pop();
    if (open.empty()) continue;
    const Added& top = added_[open.top()];
    const Address end = next < added_.size() ? std::min(top.end, added_[next].start) : top.end;
    if (!pieces_.empty() && pieces_.back().end == at && pieces_.back().value == top.value)
      pieces_.back().end = end;
    else
      pieces_.push_back({at, end, top.value});
    at = end;
  }
  pieces_.shrink_to_fit();
  std::vector<Added>().swap(added_);
}

std::optional<std::uint32_t> Intervals::find(Address address) const {
  const auto after =
      std::upper_bound(pieces_.begin(), pieces_.end(), address,
                       [](Address a, const Piece& piece) { return a < piece.start; });
  if (after == pieces_.begin() || address >= (after - 1)->end) return std::nullopt;
  return (after - 1)->value;
}

namespace {

/// Where the section of code ends that an address is in; 0: it is in none.
Address end_of_code(const elf::File& elf, Address address) {
  for (const elf::Section& section : elf.sections)
    if ((section.flags & SHF_EXECINSTR) != 0 && address >= section.address &&
        address - section.address < section.size)
      return section.address + section.size;
  return 0;
}

/// Whether a symbol is within its section: `etext` is behind it.
bool is_within_section(const elf::File& elf, const elf::TableSymbol& symbol) {
  if (symbol.section >= elf.sections.size()) return false;
  const elf::Section& section = elf.sections[symbol.section];
  return symbol.value >= section.address && symbol.value - section.address < section.size;
}

/// Marks of ARM assemblers: "$x" (code), "$d" (data), "$x.name".
bool is_mapping_symbol(std::string_view name) {
  return name.size() >= 2 && name[0] == '$' && (name.size() == 2 || name[2] == '.');
}

/// Whether it may be what assembly defines without `.type`: `start` lies in code.
bool is_in_code_without_type(const elf::File& elf, const elf::TableSymbol& symbol, Address start) {
  return symbol.type == STT_NOTYPE && is_within_section(elf, symbol) &&
         end_of_code(elf, start) != 0;
}

/// Of such a symbol.
bool is_function_name(std::string_view name) {
  return !name.empty() && !is_mapping_symbol(name);
}

struct Function {
  Address start = 0, end = 0;  ///< end 0: it has no size
  bool is_label = false;
  std::uint32_t index = 0;
};

/// Of several names for one address, the one of the largest extent is taken, of those a function's,
/// and of those the last.
bool is_before(const Function& a, const Function& b) {
  return std::tuple(a.start, a.end, !a.is_label, a.index) <
         std::tuple(b.start, b.end, !b.is_label, b.index);
}

}  // namespace

Result<FunctionSymbols> FunctionSymbols::read(Memory& file, const elf::File& elf,
                                              std::uint32_t type) {
  auto table = TRY(elf::SymbolTable::read(file, elf, type));
  FunctionSymbols symbols(std::move(table));
  const std::uint64_t thumb = elf.machine == EM_ARM ? 1 : 0;  // a mark, not part of the address
  std::vector<Function> functions;
  symbols.table_.visit([&](std::size_t i, const elf::TableSymbol& symbol) {
    const Address start = symbol.value & ~thumb;
    const auto index = static_cast<std::uint32_t>(i);
    if (elf::is_function(symbol)) {
      functions.push_back({start, symbol.size != 0 ? start + symbol.size : 0, false, index});
    } else if (is_in_code_without_type(elf, symbol, start) &&
               is_function_name(symbols.table_.name(symbol))) {
      functions.push_back({start, 0, true, index});
    }
  });
  // (A stable sort would need as much memory again.)
  std::sort(functions.begin(), functions.end(), is_before);
  // What has a size is that, whatever labels are within it.
  for (std::size_t i = 0, next = 0; i < functions.size(); ++i) {
    const Function& function = functions[i];
    if (function.end != 0) {
      symbols.functions_.add(function.start, function.end, function.index, function.start + 1);
      continue;
    }
    while (next < functions.size() && functions[next].start <= function.start) ++next;
    Address end = end_of_code(elf, function.start);
    if (next < functions.size()) end = std::min(end, functions[next].start);
    symbols.functions_.add(function.start, end, function.index, 0);
  }
  symbols.functions_.build();
  return symbols;
}

std::optional<FunctionSymbols::Found> FunctionSymbols::find(Address address) const {
  const auto index = functions_.find(address);
  if (!index) return std::nullopt;
  const elf::TableSymbol symbol = table_.at(*index);
  // Linkers write versions behind names: "f@@V1".
  const std::string_view spelled = table_.name(symbol);
  const std::string_view name = spelled.substr(0, spelled.find('@'));
  if (name.empty()) return std::nullopt;
  return Found{name, symbol.value, symbol.size != 0};
}

namespace {

constexpr unsigned max_passes = 16;
constexpr std::size_t name_windows = 64;

/// The function around each of some addresses, by one pass over the symbols in any order.
class FunctionSearch {
 public:
  /// `addresses`: ascending.
  FunctionSearch(Memory& file, const elf::File& elf, const elf::SymbolSections& sections,
                 std::span<const Address> addresses)
      : elf_(elf),
        strings_(*sections.strings),
        windows_(file, name_windows),
        thumb_(elf.machine == EM_ARM ? 1 : 0),
        addresses_(addresses),
        around_(addresses.size()),
        nearest_(addresses.size()) {}

  /// False: too many functions are around each address.
  [[nodiscard]] bool is_complete() const { return left_ != 0; }

  void offer(std::uint32_t index, const elf::TableSymbol& symbol) {
    const Address start = symbol.value & ~thumb_;
    const bool is_label = !elf::is_function(symbol);
    if (is_label && (!is_in_code_without_type(elf_, symbol, start) || !is_label_name(symbol.name)))
      return;
    const Address end = !is_label && symbol.size != 0 ? start + symbol.size : 0;
    const Candidate candidate{{start, end, is_label, index}, symbol.name, symbol.size != 0};
    const auto first = std::ranges::lower_bound(addresses_, start) - addresses_.begin();
    const auto from = static_cast<std::size_t>(first);
    for (std::size_t i = from; i < addresses_.size() && addresses_[i] < end && left_ != 0; ++i) {
      --left_;
      if (is_better(candidate, around_[i])) around_[i] = candidate;
    }
    if (from == addresses_.size()) return;
    // What has a size keeps one before it without a size from what is behind it, too.
    Nearest& nearest = nearest_[from];
    if (start > nearest.start || !nearest.is_known) nearest = {start, true, std::nullopt};
    if (end == 0 && start == nearest.start && is_better(candidate, nearest.without_size))
      nearest.without_size = candidate;
  }

  std::vector<std::optional<FunctionTable::Found>> found() {
    std::vector<std::optional<FunctionTable::Found>> all(addresses_.size());
    Nearest nearest;  // of those before an address, too
    for (std::size_t i = 0; i < addresses_.size(); ++i) {
      if (nearest_[i].is_known) nearest = nearest_[i];
      std::optional<Candidate> best = around_[i];
      if (!best && nearest.without_size && addresses_[i] < end_of_code(elf_, nearest.start))
        best = nearest.without_size;
      if (!best) continue;
      std::string name = name_at(best->name);
      name.resize(std::min(name.size(), name.find('@')));
      if (!name.empty()) all[i] = {std::move(name), best->function.start, best->has_size};
    }
    return all;
  }

 private:
  struct Candidate {
    Function function;
    std::uint32_t name = 0;  ///< offset among the strings
    bool has_size = false;   ///< which counts for functions alone
  };
  struct Nearest {
    Address start = 0;
    bool is_known = false;
    std::optional<Candidate> without_size;  ///< that begins there
  };

  /// As FunctionSymbols::read has it.
  static bool is_better(const Candidate& one, const std::optional<Candidate>& other) {
    return !other || is_before(other->function, one.function);
  }

  bool is_label_name(std::uint32_t offset) {
    const auto [known, is_new] = label_names_.try_emplace(offset, false);
    if (is_new) known->second = is_function_name(name_at(offset));
    return known->second;
  }

  std::string name_at(std::uint32_t offset) {
    if (offset >= strings_.size) return {};
    std::string name = elf::read_string(windows_, strings_.offset + offset, limits::name_bytes + 1,
                                        "a symbol's name")
                           .value_or(std::string());
    return name.size() < strings_.size - offset ? name : std::string();
  }

  const elf::File& elf_;
  const elf::Section& strings_;
  WindowMemory windows_;
  std::uint64_t thumb_;
  std::span<const Address> addresses_;
  std::vector<std::optional<Candidate>> around_;
  std::vector<Nearest> nearest_;  ///< of functions behind the address before
  std::unordered_map<std::uint32_t, bool> label_names_;
  std::size_t left_ = 1 + 64 * addresses_.size();
};

}  // namespace

Result<FunctionTable> FunctionTable::find(Memory& file, const elf::File& elf, std::uint32_t type) {
  const auto sections = TRY(elf::find_symbol_sections(elf, type));
  if (((sections.symbols->flags | sections.strings->flags) & SHF_COMPRESSED) != 0)
    return FunctionSymbols::read(file, elf, type).map([](FunctionSymbols index) {
      return FunctionTable(std::move(index));
    });
  return FunctionTable(file, elf, type, sections);
}

std::vector<std::optional<FunctionTable::Found>> FunctionTable::find(
    std::span<const Address> addresses) {
  std::vector<std::optional<Found>> found(addresses.size());
  if (addresses.empty()) return found;
  if (!index_ && passes_++ < max_passes) {
    std::vector<Address> ascending(addresses.begin(), addresses.end());
    std::ranges::sort(ascending);
    ascending.erase(std::unique(ascending.begin(), ascending.end()), ascending.end());
    FunctionSearch search(*file_, *elf_, sections_, ascending);
    // What cannot be read is absent.
    static_cast<void>(elf::visit_symbols(*file_, *elf_, *sections_.symbols, limits::file_symbols,
                                         [&](std::size_t i, const elf::TableSymbol& symbol) {
                                           search.offer(static_cast<std::uint32_t>(i), symbol);
                                         }));
    if (search.is_complete()) {
      const auto each = search.found();
      for (std::size_t i = 0; i < addresses.size(); ++i)
        found[i] = each[static_cast<std::size_t>(std::ranges::lower_bound(ascending, addresses[i]) -
                                                 ascending.begin())];
      return found;
    }
  }
  if (!index_) {
    auto index = FunctionSymbols::read(*file_, *elf_, type_);
    if (!index) return found;
    index_ = std::move(*index);
  }
  for (std::size_t i = 0; i < addresses.size(); ++i)
    if (const auto one = index_->find(addresses[i]))
      found[i] = {std::string(one->name), one->start, one->has_size};
  return found;
}

namespace {

constexpr std::size_t max_unpacked = 128U << 20;  // packed or not, and of liblzma's own memory

Result<std::vector<std::byte>> unpacked(std::span<const std::byte> packed) {
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_decoder(&stream, max_unpacked, 0) != LZMA_OK)
    return fail(ErrorCode::failed, "cannot start liblzma");
  std::vector<std::byte> out;
  stream.next_in = reinterpret_cast<const std::uint8_t*>(packed.data());
  stream.avail_in = packed.size();
  lzma_ret state = LZMA_OK;
  while (state == LZMA_OK && out.size() < max_unpacked) {
    const std::size_t have = out.size();
    out.resize(have + (1U << 20));
    stream.next_out = reinterpret_cast<std::uint8_t*>(out.data() + have);
    stream.avail_out = out.size() - have;
    state = lzma_code(&stream, LZMA_FINISH);
    out.resize(out.size() - stream.avail_out);
  }
  lzma_end(&stream);
  if (state == LZMA_STREAM_END) return out;
  return fail(
      state == LZMA_OK || state == LZMA_MEMLIMIT_ERROR ? ErrorCode::limit : ErrorCode::malformed,
      "its .gnu_debugdata cannot be decompressed");
}

}  // namespace

Result<FunctionSymbols> mini_debug_symbols(Memory& file, const elf::File& elf) {
  const elf::Section* section = elf.find(".gnu_debugdata");
  if (section == nullptr) return fail(ErrorCode::not_found, "the file has no .gnu_debugdata");
  const auto packed = TRY(elf::read_section(file, elf, *section, max_unpacked));
  auto bytes = TRY(unpacked(packed.bytes));
  ByteMemory inner(std::move(bytes));
  const auto its_elf = TRY(elf::read_file(inner));
  return FunctionSymbols::read(inner, its_elf, SHT_SYMTAB);
}

}  // namespace vitrine::symbol
