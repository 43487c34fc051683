#include "symbol/functions.hpp"

#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "base/limits.hpp"
#include "base/pack.hpp"
#include "base/text.hpp"
#include "elf/go_functions.hpp"
#include "sandbox/worker.hpp"
#include "symbol/demangle.hpp"
#include "symbol/dwarf_info.hpp"
#include "symbol/file_names.hpp"
#include "symbol/function_symbols.hpp"
#include "symbol/signature.hpp"
#include "unwind/exits.hpp"

namespace vitrine::symbol {

constexpr ParameterKind last(ParameterKind) {
  return ParameterKind::aggregate;
}

template <pack::Of<ParameterEnumerator> T>
auto fields(T& enumerator) {
  auto& [value, name] = enumerator;
  return std::tie(value, name);
}

template <pack::Of<FunctionParameter> T>
auto fields(T& parameter) {
  auto& [name, type, kind, size, is_signed, words, vectors, in_memory, is_address, is_aligned,
         address_word, registers, constant, is_lost, enumerators] = parameter;
  return std::tie(name, type, kind, size, is_signed, words, vectors, in_memory, is_address,
                  is_aligned, address_word, registers, constant, is_lost, enumerators);
}

template <pack::Of<FunctionExit> T>
auto fields(T& exit) {
  auto& [address, is_return] = exit;
  return std::tie(address, is_return);
}

template <pack::Of<FoundFunction> T>
auto fields(T& found) {
  auto& [address, name, demangled, patterns, is_start, is_ifunc, is_go, may_throw, exits,
         exits_unknown, unclear_exit, loop_jump, is_described, parameters, result] = found;
  return std::tie(address, name, demangled, patterns, is_start, is_ifunc, is_go, may_throw, exits,
                  exits_unknown, unclear_exit, loop_jump, is_described, parameters, result);
}

template <pack::Of<MissingFunction> T>
auto fields(T& missing) {
  auto& [pattern, reason, near] = missing;
  return std::tie(pattern, reason, near);
}

template <pack::Of<FunctionListing> T>
auto fields(T& listing) {
  auto& [functions, left_out, known, missing] = listing;
  return std::tie(functions, left_out, known, missing);
}

namespace {

struct FunctionRequest {
  DebugSearch debug;
  std::vector<std::string> names;
  std::vector<std::uint32_t> exits_of;
  std::uint64_t most = 0;
};

template <pack::Of<FunctionRequest> T>
auto fields(T& request) {
  auto& [debug, names, exits_of, most] = request;
  return std::tie(debug, names, exits_of, most);
}

constexpr bool is_name_character(char c) {
  return is_letter(c) || is_digit(c);
}

/// The longest word of a pattern that a mangled name must have as it is: manglings spell words out,
/// but for some of the standard library.
std::string required_word(const std::string& pattern) {
  static const std::set<std::string_view> abbreviated{
      "std",      "string",      "allocator",     "basic_string",  "istream",        "ostream",
      "iostream", "operator",    "new",           "delete",        "anonymous",      "char",
      "unsigned", "char_traits", "basic_istream", "basic_ostream", "basic_iostream", "namespace",
      "lambda",   "const",       "int",           "long",          "short",          "bool",
      "double",   "float",       "void",          "clone",         "signed"};
  std::string longest;
  const std::size_t end = std::min(pattern.size(), pattern.find('('));
  for (std::size_t at = 0; at < end;) {
    if (pattern[at] == '[') return {};
    std::size_t to = at;
    while (to < end && is_name_character(pattern[to])) ++to;
    const auto word = pattern.substr(at, to - at);
    // Of what a glob cuts, the rest of the word is not known: "str*" of an abbreviated word.
    const bool is_cut = to < pattern.size() && (pattern[to] == '*' || pattern[to] == '?');
    const bool may_be_short =
        is_cut && std::any_of(abbreviated.begin(), abbreviated.end(),
                              [&](auto one) { return one.starts_with(word); });
    if (word.size() > longest.size() && !abbreviated.contains(word) && !may_be_short)
      longest = word;
    at = std::max(to, at + 1);
  }
  return longest;
}

/// One of the names that were asked for.
struct WantedName {
  std::string text;
  std::optional<Address> address;
  std::string word;  ///< see required_word()
  bool is_glob = false;
  bool is_found = false;
  bool is_undefined = false;  ///< a symbol of the name is, but not defined here
  std::set<std::pair<std::size_t, std::string>> near{};

  explicit WantedName(const std::string& name) : text(name), word(required_word(name)) {
    address = parse_address(name);
    is_glob = has_wildcards(name);
  }

  [[nodiscard]] bool is_equal_or_like(std::string_view name) const {
    return name == text || (is_glob && glob_matches(text, name));
  }
  /// `mangled`: it may need to be demangled, which is done once.
  [[nodiscard]] bool matches(const std::string& name, std::optional<std::string>& plain) const {
    if (address) return false;
    if (is_equal_or_like(name)) return true;
    if (!is_mangled(name) || (!word.empty() && name.find(word) == name.npos)) return false;
    if (!plain) plain = demangled(name);
    return is_equal_or_like(*plain) || is_equal_or_like(qualified_name(*plain));
  }
};

/// gcc's and clang's unlikely parts of functions are jumped to: nothing returns from them.
bool is_cold_part(std::string_view name) {
  const std::size_t at = name.find(".cold");
  return at != name.npos && (at + 5 == name.size() || name[at + 5] == '.');
}

/// Of several names of one address: what was asked for by name, then what is exported, then what
/// looks least like an internal one.
struct NameRank {
  bool is_pattern = false;
  std::uint8_t binding = STB_LOCAL;
  std::string name;

  [[nodiscard]] bool is_better(const NameRank& other) const {
    const auto key = [](const NameRank& rank) {
      const auto underscores = rank.name.find_first_not_of('_');
      return std::tuple(!rank.is_pattern, rank.binding != STB_GLOBAL, rank.binding != STB_WEAK,
                        is_mangled(rank.name) ? 0 : underscores, rank.name.size(), rank.name);
    };
    return key(*this) < key(other);
  }
};

class FunctionFinder {
 public:
  FunctionFinder(std::unique_ptr<sandbox::FileMemory> file, elf::File elf,
                 const FunctionRequest& request)
      : machine_(machine_of(elf.machine)),
        most_(request.most),
        exits_of_(request.exits_of.begin(), request.exits_of.end()) {
    for (const std::string& name : request.names) wanted_.emplace_back(name);
    sources_ = NameSources::find(std::move(file), std::move(elf), request.debug).files;
    is_go_ = elf::is_go_file(sources_.front().elf);
    for (Source& source : sources_) {
      take_table(FunctionSymbols::read(*source.memory, source.elf, SHT_SYMTAB));
      take_table(mini_debug_symbols(*source.memory, source.elf));
      take_table(FunctionSymbols::read(*source.memory, source.elf, SHT_DYNSYM));
    }
  }

  FunctionListing find() {
    FunctionListing listing;
    visit([&](const std::string& name, const elf::TableSymbol& symbol) { look_at(name, symbol); });
    find_addresses();
    open_dwarf();
    for (auto& [address, one] : found_) {
      if (listing.functions.size() >= most_) {
        ++listing.left_out;
        continue;
      }
      FoundFunction& found = listing.functions.emplace_back(std::move(one.function));
      found.name = one.rank.name;
      if (auto plain = demangled(found.name); plain != found.name) found.demangled = plain;
      found.is_go = is_go_ && found.demangled.empty();
      found.may_throw = is_mangled(found.name);
      if (wants_exits(found)) find_exits({address, end_of(address)}, found);
      if (wants_entry(found) && one.end > address)
        found.loop_jump =
            unwind::find_jump_to_start(reader(), {address, one.end}).value_or(found.loop_jump);
      if (dwarf_ != nullptr && found.is_start) describe_function(*dwarf_, machine_, found);
    }
    listing.known = starts_.size();
    if (listing.functions.size() < wanted_.size() || any_missing()) explain(listing);
    return listing;
  }

  /// In the debug information.
  bool is_inlined(const std::string& name) {
    open_dwarf();
    return dwarf_ != nullptr && is_inlined_everywhere(*dwarf_, name);
  }

 private:
  using Source = NameSources::Source;

  struct Found {
    FoundFunction function;
    NameRank rank;
    Address end = 0;  ///< by its symbol; 0: not known
  };

  /// The call frame information of the file.
  struct Frames {
    struct End {
      void operator()(::Elf* elf) const { elf_end(elf); }
      void operator()(Dwarf_CFI* table) const { dwarf_cfi_end(table); }
    };
    std::unique_ptr<::Elf, End> elf;
    std::unique_ptr<Dwarf_CFI, End> table;
  };

  void take_table(Result<FunctionSymbols> table) {
    if (table) tables_.push_back(std::move(*table));
  }

  /// All names of functions, each with its symbol; those of Go as if they were in a symbol table.
  void visit(const std::function<void(const std::string&, const elf::TableSymbol&)>& each) const {
    for (const FunctionSymbols& symbols : tables_)
      symbols.table().visit([&](std::size_t, const elf::TableSymbol& symbol) {
        if (symbol.type != STT_FUNC && symbol.type != STT_GNU_IFUNC && symbol.type != STT_NOTYPE)
          return;
        std::string_view name = symbols.table().name(symbol);
        name = name.substr(0, name.find('@'));
        if (!name.empty()) each(std::string(name), symbol);
      });
    if (!is_go_) return;
    elf::visit_go_functions(*sources_.front().memory, sources_.front().elf,
                            [&](Address address, std::string_view name) {
                              elf::TableSymbol symbol;
                              symbol.value = address;
                              symbol.type = STT_FUNC;
                              symbol.section = SHN_UNDEF + 1;  // it is defined
                              each(std::string(name), symbol);
                            });
  }

  [[nodiscard]] bool is_code(Address address) const {
    const auto& segments = sources_.front().elf.segments;
    return std::any_of(segments.begin(), segments.end(), [&](const elf::Segment& segment) {
      return segment.type == PT_LOAD && (segment.flags & PF_X) != 0 && address >= segment.address &&
             address - segment.address < segment.memory_size;
    });
  }

  void look_at(const std::string& name, const elf::TableSymbol& symbol) {
    const bool is_defined = symbol.section != SHN_UNDEF;
    if (!is_defined) {
      for (WantedName& wanted : wanted_)
        if (wanted.text == name) wanted.is_undefined = true;
      return;
    }
    if (!is_code(symbol.value)) return;
    const Address end = symbol.size != 0 ? symbol.value + symbol.size : 0;
    if (is_cold_part(name)) {
      if (!exits_of_.empty() && end > symbol.value) cold_parts_[symbol.value] = end;
      return;
    }
    const bool is_label = symbol.type == STT_NOTYPE;
    if (!is_label) starts_.insert(symbol.value);
    if (!exits_of_.empty() && end > symbol.value)
      ends_[symbol.value] = std::max(ends_[symbol.value], end);
    std::optional<std::string> plain;
    for (std::uint32_t i = 0; i < wanted_.size(); ++i) {
      WantedName& wanted = wanted_[i];
      // A label of assembly may be anywhere: it is one if it is asked for by name.
      if (is_label ? wanted.text != name : !wanted.matches(name, plain)) continue;
      wanted.is_found = true;
      add(symbol.value, i, {wanted.text == name, symbol.binding, name});
      Found& found = found_[symbol.value];
      found.function.is_ifunc |= symbol.type == STT_GNU_IFUNC;
      found.end = std::max(found.end, end);
    }
  }

  void add(Address address, std::uint32_t pattern, NameRank rank) {
    const auto [known, is_new] = found_.try_emplace(address);
    Found& found = known->second;
    found.function.address = address;
    auto& patterns = found.function.patterns;
    if (std::find(patterns.begin(), patterns.end(), pattern) == patterns.end())
      patterns.push_back(pattern);
    if (is_new || rank.is_better(found.rank)) found.rank = std::move(rank);
  }

  /// A replaced return address does not survive exceptions, nor stacks that move or are left for
  /// others. Functions of C are passed by these, too: their names do not show what calls them.
  [[nodiscard]] bool wants_exits(const FoundFunction& found) const {
    return !found.is_ifunc && found.is_start &&
           std::any_of(found.patterns.begin(), found.patterns.end(),
                       [this](std::uint32_t pattern) { return exits_of_.contains(pattern); });
  }

  /// Of which the entry is asked for. (A function of Go jumps back there when it has a larger stack.)
  [[nodiscard]] bool wants_entry(const FoundFunction& found) const {
    return machine_ == Machine::x86_64 && !found.is_go &&
           std::any_of(found.patterns.begin(), found.patterns.end(),
                       [this](std::uint32_t pattern) { return !exits_of_.contains(pattern); });
  }

  /// Of the file's code.
  [[nodiscard]] unwind::ReadCode reader() const {
    return [&source = sources_.front()](Address address, std::span<std::byte> into) -> std::size_t {
      const auto offset = elf::file_offset(source.elf.segments, address, into.size(), PF_X);
      return offset ? source.memory->read_some(*offset, into) : 0;
    };
  }

  /// 0: not known. Only of Go is what follows the next function: others may have no symbol.
  [[nodiscard]] Address end_of(Address start) const {
    if (const auto known = ends_.find(start); known != ends_.end()) return known->second;
    if (!is_go_) return 0;
    const auto next = starts_.upper_bound(start);
    return next == starts_.end() ? 0 : *next;
  }

  void find_exits(unwind::CodeRange range, FoundFunction& found) {
    if (machine_ != Machine::x86_64) {
      found.exits_unknown = "only code of x86-64 is disassembled";
      return;
    }
    const unwind::ReadCode read = reader();
    const auto part_at = [&](Address address) -> std::optional<unwind::CodeRange> {
      auto part = cold_parts_.upper_bound(address);
      if (part == cold_parts_.begin() || address >= (--part)->second) return std::nullopt;
      return unwind::CodeRange{part->first, part->second};
    };
    unwind::LeftAt left_at;  // Go has tables of its own, and no jumps to parts
    if (!found.is_go) left_at = [this](Address address) { return row_without_frame(address); };
    auto exits = unwind::find_exits(read, range, part_at, left_at);
    if (!exits) found.exits_unknown = exits.error().message;
    if (exits)
      std::erase_if(*exits, [&](const unwind::Exit& exit) {
        if (exit.is_unclear) found.unclear_exit = exit.address;
        return exit.is_unclear;
      });
    if (found.unclear_exit != 0 && exits->empty()) {
      found.exits_unknown =
          fmt::format("its jump by a table at {} may leave it", hex(found.unclear_exit));
      return;
    }
    if (exits && exits->empty()) found.exits_unknown = "it does not return";
    // Which of both probes of one instruction fires first, the kernel does not promise.
    if (exits && !exits->empty() && exits->front().address == range.start)
      found.exits_unknown = "its first instruction leaves it";
    else if (exits)
      for (const unwind::Exit& exit : *exits) found.exits.push_back({exit.address, exit.is_return});
  }

  void find_addresses() {
    for (std::uint32_t i = 0; i < wanted_.size(); ++i) {
      WantedName& wanted = wanted_[i];
      if (!wanted.address || !is_code(*wanted.address)) continue;
      wanted.is_found = true;
      const Address address = *wanted.address;
      NameRank rank;
      for (const FunctionSymbols& symbols : tables_)
        if (const auto around = symbols.find(address); around && around->start == address) {
          rank.name = around->name;
          break;
        }
      add(address, i, rank);
      found_[address].function.is_start =
          starts_.contains(address) || begins_frame(address) || !rank.name.empty();
    }
  }

  /// Whether the unwinder's table has a function that begins there: stripped files have it, too. The
  /// first row of a function begins with it.
  bool begins_frame(Address address) { return row_without_frame(address) == address; }

  /// Of the file's .eh_frame; null: it has none.
  Dwarf_CFI* frames() {
    if (!frames_) {
      elf_version(EV_CURRENT);
      frames_.emplace();
      frames_->elf.reset(
          elf_begin(sources_.front().memory->descriptor(), ELF_C_READ_MMAP, nullptr));
      if (frames_->elf) frames_->table.reset(dwarf_getcfi_elf(frames_->elf.get()));
    }
    return frames_->table.get();
  }

  /// The start of the row of call frame information that an address is in, where nothing of a
  /// function is on the stack but the address to return to: the address of the caller's frame is one
  /// word from the stack pointer, as at the start of functions and where they are left. Nothing:
  /// something else is, or it is not known.
  std::optional<Address> row_without_frame(Address address) {
    Dwarf_CFI* const table = frames();
    Dwarf_Frame* found = nullptr;
    if (table == nullptr || dwarf_cfi_addrframe(table, address, &found) != 0) return std::nullopt;
    // NOLINTNEXTLINE(cppcoreguidelines-no-malloc): libdw allocates it so
    const std::unique_ptr<Dwarf_Frame, void (*)(void*)> frame(found, std::free);
    Dwarf_Addr start = 0, end = 0;
    if (dwarf_frame_info(frame.get(), &start, &end, nullptr) < 0) return std::nullopt;
    Dwarf_Op* steps = nullptr;
    std::size_t count = 0;
    if (dwarf_frame_cfa(frame.get(), &steps, &count) != 0 || count == 0) return std::nullopt;
    const std::uint64_t word = machine_ == Machine::aarch64 ? 0 : machine_ == Machine::i386 ? 4 : 8;
    const unsigned pointer = machine_ == Machine::aarch64 ? 31 : machine_ == Machine::i386 ? 4 : 7;
    const bool is_short = steps[0].atom == DW_OP_breg0 + pointer && steps[0].number == word;
    const bool is_long =
        steps[0].atom == DW_OP_bregx && steps[0].number == pointer && steps[0].number2 == word;
    if (!is_short && !is_long) return std::nullopt;
    return start;
  }

  void open_dwarf() {
    if (dwarf_ != nullptr || is_dwarf_asked_) return;
    is_dwarf_asked_ = true;
    for (Source& source : sources_) {
      auto dwarf =
          DwarfInfo::open(source.memory->descriptor(), source.elf, DwarfInfo::Purpose::signatures);
      if (!dwarf) continue;
      dwarf_ = std::move(*dwarf);
      return;
    }
  }

  [[nodiscard]] bool any_missing() const {
    return std::any_of(wanted_.begin(), wanted_.end(),
                       [](const WantedName& wanted) { return !wanted.is_found; });
  }

  void explain(FunctionListing& listing) {
    if (!any_missing()) return;
    find_near();
    for (std::uint32_t i = 0; i < wanted_.size(); ++i) {
      const WantedName& wanted = wanted_[i];
      if (wanted.is_found) continue;
      MissingFunction& missing = listing.missing.emplace_back();
      missing.pattern = i;
      if (wanted.is_undefined)
        missing.reason = "it is only imported there: another file defines it";
      else if (wanted.address)
        missing.reason = "the file has no code at this address";
      else if (starts_.empty())
        missing.reason = "the file has no symbols of functions";
      for (const auto& [far, name] : wanted.near) missing.near.push_back(name);
    }
  }

  /// Names that are spelt alike, or are the same in another class or namespace.
  void find_near() {
    constexpr std::size_t max_near = 5, max_looked_at = 200'000, max_apart = 3;
    std::size_t looked_at = 0;
    const auto look = [&](const std::string& name, const elf::TableSymbol& symbol) {
      if (symbol.section == SHN_UNDEF || symbol.type == STT_NOTYPE || is_cold_part(name) ||
          ++looked_at > max_looked_at)
        return;
      const std::string plain = is_mangled(name) ? qualified_name(demangled(name)) : name;
      for (WantedName& wanted : wanted_) {
        if (wanted.is_found || wanted.address) continue;
        const std::string asked = qualified_name(wanted.text);
        std::size_t far = max_apart + 1;
        const auto ends_alike = [&](std::string_view sign) {
          return plain.ends_with(std::string(sign) + asked) ||
                 (wanted.is_glob && glob_matches("*" + std::string(sign) + wanted.text, plain));
        };
        if (ends_alike("::") || ends_alike("."))
          far = 0;
        else if (std::max(plain.size(), asked.size()) - std::min(plain.size(), asked.size()) <=
                 max_apart)
          far = spelling_distance(asked, plain);
        if (far > max_apart || far * 2 > asked.size()) continue;
        wanted.near.emplace(far, plain);
        if (wanted.near.size() > max_near) wanted.near.erase(std::prev(wanted.near.end()));
      }
    };
    visit(look);
  }

  Machine machine_;
  std::uint64_t most_;
  std::set<std::uint32_t> exits_of_;  ///< of wanted_
  std::vector<WantedName> wanted_;
  std::vector<Source> sources_;
  std::vector<FunctionSymbols> tables_;
  std::unique_ptr<DwarfInfo> dwarf_;
  bool is_dwarf_asked_ = false;
  bool is_go_ = false;
  std::set<Address> starts_;  ///< of all functions that have a name
  std::map<Address, Found> found_;
  std::map<Address, Address> ends_, cold_parts_;  ///< of functions with a size; of such parts
  std::optional<Frames> frames_;
};

Result<FunctionFinder> finder_of(const FunctionRequest& request, FileDescriptor descriptor) {
  auto file = TRY(sandbox::FileMemory::from(std::move(descriptor)));
  auto elf = TRY(elf::read_file(*file));
  return FunctionFinder(std::move(file), std::move(elf), request);
}

/// In a worker.
Result<FunctionListing> parse_functions(const FunctionRequest& request, FileDescriptor descriptor) {
  auto finder = TRY(finder_of(request, std::move(descriptor)));
  return finder.find();
}

/// In a worker: which of the names are of functions that are inlined everywhere.
Result<std::vector<std::uint32_t>> parse_inlined(const FunctionRequest& request,
                                                 FileDescriptor descriptor) {
  auto finder = TRY(finder_of(request, std::move(descriptor)));
  std::vector<std::uint32_t> inlined;
  for (std::uint32_t i = 0; i < request.names.size(); ++i)
    if (finder.is_inlined(request.names[i])) inlined.push_back(i);
  return inlined;
}

}  // namespace

std::string qualified_name(const std::string& demangled) {
  std::string_view name = demangled;
  if (const std::size_t clone = name.find(" [clone "); clone != name.npos)
    name = name.substr(0, clone);
  // The list of parameters is the last pair of parentheses, before qualifiers of a method.
  const std::size_t close = name.rfind(')');
  if (close != name.npos &&
      name.find_first_not_of(" &abcdefghijklmnopqrstuvwxyz", close + 1) == name.npos) {
    std::size_t depth = 0, at = close + 1;
    while (at-- > 0) {
      depth += name[at] == ')';
      if (name[at] == '(' && --depth == 0) break;
    }
    if (at != std::string_view::npos && at != 0) name = name.substr(0, at);
  }
  // Of a template, what it returns comes first.
  std::size_t depth = 0, from = 0;
  for (std::size_t at = 0; at < name.size(); ++at) {
    const char c = name[at];
    const bool begins_word = at == 0 || !is_name_character(name[at - 1]);
    if (depth == 0 && begins_word && name.substr(at).starts_with("operator") &&
        (at + 8 >= name.size() || !is_name_character(name[at + 8])))
      break;
    if (c == '<' || c == '(' || c == '{' || c == '[') ++depth;
    if ((c == '>' || c == ')' || c == '}' || c == ']') && depth > 0) --depth;
    if (c == ' ' && depth == 0) from = at + 1;
  }
  return std::string(name.substr(from));
}

Result<FunctionListing> find_functions(const sandbox::FileMemory& file, const FunctionQuery& query,
                                       const DebugPlaces& places) {
  FunctionRequest request{places.search(), query.names, query.exits_of, query.most};
  auto& parser = sandbox::Parser::of_this_thread();
  auto listing = TRY(parser.ask<&parse_functions>(request, file.descriptor(), places.open()));
  for (const FoundFunction& found : listing.functions)
    for (const std::uint32_t pattern : found.patterns)
      if (pattern >= query.names.size()) return parser.invalid_response();
  std::erase_if(listing.missing, [&](const MissingFunction& missing) {
    return missing.pattern >= query.names.size();
  });
  // By itself: it may take more time than there is.
  std::vector<std::uint32_t> asked;
  request.names.clear();
  request.exits_of.clear();
  for (const MissingFunction& missing : listing.missing) {
    const std::string& name = query.names[missing.pattern];
    if (!missing.reason.empty() || has_wildcards(name)) continue;
    asked.push_back(missing.pattern);
    request.names.push_back(name);
  }
  if (asked.empty()) return listing;
  const auto inlined = parser.ask<&parse_inlined>(request, file.descriptor(), places.open());
  if (!inlined) return listing;
  for (const std::uint32_t index : *inlined)
    for (MissingFunction& missing : listing.missing)
      if (index < asked.size() && missing.pattern == asked[index])
        missing.reason = "the compiler has inlined every call of it";
  return listing;
}

}  // namespace vitrine::symbol
