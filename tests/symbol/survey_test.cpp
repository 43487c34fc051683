// Every program of a folder, and our own: the names of drawn addresses, against llvm-symbolizer.
// No name differs, except for the reasons of `Reason`; each difference must be one of those.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "elf/file.hpp"
#include "elf/notes.hpp"
#include "elf/symbol_table.hpp"
#include "sandbox/files.hpp"
#include "symbol/llvm_symbolizer.hpp"
#include "symbol/symboliser.hpp"

namespace vitrine::symbol {
namespace {

/// Why a name may differ.
enum class Reason : std::uint8_t {
  none,
  /// llvm-symbolizer 14 has no name: of a stub of the procedure linkage table, of what only call frame
  /// information, mini debug information or Go's table of functions knows.
  theirs_has_none,
  /// Two symbols are of the same bytes.
  alias,
  /// A label lies within a function that has a size: the name is the function's, as for gdb.
  label_in_function,
  /// llvm-symbolizer stretches a symbol without a size past its section: `_init` over the stubs of the
  /// procedure linkage table.
  past_section,
  /// DWARF has the name of the source, the symbol that of a part or a copy which the compiler made:
  /// `read.constprop.0`.
  part_of_function,
  /// A table of data among the code: not a function.
  data,
};

constexpr std::array<const char*, 7> reasons{"unexplained",
                                             "llvm-symbolizer has no name",
                                             "another name of the same bytes",
                                             "a label within a function",
                                             "llvm-symbolizer's symbol is of another section",
                                             "a part or copy of the function",
                                             "data among code"};

struct Symbol {
  Address start = 0, size = 0;
  std::string name;
  bool is_data = false;
};

struct Survey {
  std::size_t files = 0, addresses = 0, same = 0;
  std::array<std::size_t, reasons.size()> differences{};
  std::vector<std::string> unexplained;
};

const std::string& spelt(const Frame& frame) {
  return frame.system_name.empty() ? frame.name : frame.system_name;
}

/// Without the version of a dynamic symbol: it is not part of the name.
std::string_view without_version(std::string_view name) {
  return name.substr(0, name.find('@'));
}

class Program {
 public:
  explicit Program(const std::filesystem::path& path) : path_(path) {
    auto descriptor = sandbox::open_regular_at(AT_FDCWD, path);
    if (!descriptor) return;
    auto memory = sandbox::FileMemory::from(std::move(*descriptor));
    if (!memory) return;
    const auto elf = elf::read_file(**memory);
    if (!elf) return;
    for (const elf::Section& section : elf->sections)
      if ((section.flags & SHF_EXECINSTR) != 0 && section.type == SHT_PROGBITS && section.size != 0)
        code_.push_back({section.address, section.size, {}});
    for (const std::uint32_t type : {SHT_SYMTAB, SHT_DYNSYM}) add_symbols(**memory, *elf, type);
    add_debug_symbols(elf::hex_build_id(**memory, *elf));
  }

  [[nodiscard]] bool has_code() const { return !code_.empty(); }

  void compare(std::size_t count, Survey& survey) const {
    const std::vector<Address> addresses = draw(count);
    const auto file = sandbox::open_regular_at(AT_FDCWD, path_).value();
    Symboliser symboliser;
    const Resolved ours = symboliser.resolve({path_, file.get(), {}}, addresses);
    EXPECT_EQ(ours.problem, "") << path_;
    const auto theirs = test::llvm_frames(path_, addresses);
    ++survey.files;
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      ++survey.addresses;
      const std::string our_name = name_of(ours.frames[i]), their_name = name_of(theirs[i]);
      if (without_version(our_name) == without_version(their_name) ||
          our_name.ends_with("::" + their_name)) {
        ++survey.same;
        continue;
      }
      const Reason reason = reason_of(addresses[i], our_name, their_name);
      ++survey.differences[static_cast<std::size_t>(reason)];
      if (reason == Reason::none)
        survey.unexplained.push_back(
            fmt::format("{} {:#x}: {} | {}", path_.string(), addresses[i], our_name, their_name));
    }
  }

 private:
  /// Of the innermost function; nothing for a place without a name.
  static std::string name_of(const Frames& frames) {
    if (frames.empty() || frames[0].name.starts_with("+0x")) return {};
    return spelt(frames[0]);
  }

  /// Of the separate debug file, if it is installed: both tools read it.
  void add_debug_symbols(const std::string& id) {
    if (id.size() < 4) return;
    auto descriptor = sandbox::open_regular_at(
        AT_FDCWD,
        fmt::format("/usr/lib/debug/.build-id/{}/{}.debug", id.substr(0, 2), id.substr(2)));
    if (!descriptor) return;
    auto memory = sandbox::FileMemory::from(std::move(*descriptor));
    if (!memory) return;
    if (const auto elf = elf::read_file(**memory)) add_symbols(**memory, *elf, SHT_SYMTAB);
  }

  void add_symbols(Memory& memory, const elf::File& elf, std::uint32_t type) {
    const auto table = elf::SymbolTable::read(memory, elf, type);
    if (!table) return;
    table->visit([&](std::size_t, const elf::TableSymbol& symbol) {
      if (symbol.section == SHN_UNDEF) return;
      symbols_.push_back({symbol.value, symbol.size,
                          std::string(without_version(table->name(symbol))),
                          symbol.type == STT_OBJECT});
    });
  }

  [[nodiscard]] std::vector<Address> draw(std::size_t count) const {
    Address all = 0;
    for (const Symbol& section : code_) all += section.size;
    std::mt19937_64 random(20'26);
    std::vector<Address> addresses(count);
    for (Address& address : addresses) {
      Address at = std::uniform_int_distribution<Address>(0, all - 1)(random);
      for (const Symbol& section : code_) {
        address = section.start + at;
        if (at < section.size) break;
        at -= section.size;
      }
    }
    return addresses;
  }

  /// The symbol of that name that covers the address; one of no size begins there or before.
  [[nodiscard]] const Symbol* find(std::string_view name, Address address) const {
    const auto found = std::ranges::find_if(symbols_, [&](const Symbol& symbol) {
      return symbol.name == without_version(name) && symbol.start <= address &&
             (symbol.size == 0 || address - symbol.start < symbol.size);
    });
    return found == symbols_.end() ? nullptr : &*found;
  }

  /// The section of code that has an address; nullptr if none has it.
  [[nodiscard]] const Symbol* section_of(Address address) const {
    const auto found = std::ranges::find_if(code_, [&](const Symbol& section) {
      return address >= section.start && address - section.start < section.size;
    });
    return found == code_.end() ? nullptr : &*found;
  }

  [[nodiscard]] Reason reason_of(Address address, const std::string& ours,
                                 const std::string& theirs) const {
    if (theirs.empty()) return Reason::theirs_has_none;
    const Symbol* our_symbol = find(ours, address);
    const Symbol* their_symbol = find(theirs, address);
    if (their_symbol != nullptr && their_symbol->size == 0 &&
        section_of(their_symbol->start) != section_of(address))
      return Reason::past_section;
    if (our_symbol != nullptr && ours.starts_with(theirs + '.')) return Reason::part_of_function;
    if (ours.empty() && their_symbol != nullptr && their_symbol->is_data) return Reason::data;
    if (our_symbol == nullptr || their_symbol == nullptr) return Reason::none;
    if (our_symbol->start == their_symbol->start) return Reason::alias;
    if (our_symbol->size != 0 && their_symbol->size == 0) return Reason::label_in_function;
    return Reason::none;
  }

  std::filesystem::path path_;
  std::vector<Symbol> code_;  ///< sections
  std::vector<Symbol> symbols_;
};

void report(const Survey& survey) {
  fmt::print("{} addresses of {} files: {} names are the same", survey.addresses, survey.files,
             survey.same);
  for (std::size_t i = 0; i < reasons.size(); ++i)
    if (survey.differences[i] != 0) fmt::print(", {}: {}", survey.differences[i], reasons[i]);
  fmt::print("\n");
  std::string list;
  for (std::size_t i = 0; i < std::min<std::size_t>(survey.unexplained.size(), 40); ++i)
    list += survey.unexplained[i] + '\n';
  EXPECT_TRUE(survey.unexplained.empty()) << "address: ours | llvm-symbolizer\n" << list;
}

TEST(Survey, OurPrograms) {
  Survey survey;
  for (const char* path : {VITRINE, SUBJECT_DIR "/gcc-dwarf5", SUBJECT_DIR "/clang-dwarf4",
                           SUBJECT_DIR "/no-debug", SUBJECT_DIR "/assembly"})
    Program(path).compare(2000, survey);
  report(survey);
}

TEST(NamesSurvey, EveryProgramOfTheSystem) {
  Survey survey;
  std::set<std::filesystem::path> seen;
  for (const auto& entry : std::filesystem::directory_iterator("/usr/bin")) {
    std::error_code failed;
    const auto path = std::filesystem::canonical(entry.path(), failed);
    if (failed || !std::filesystem::is_regular_file(path) || !seen.insert(path).second) continue;
    if (const Program program(path); program.has_code()) program.compare(256, survey);
  }
  report(survey);
  EXPECT_GT(survey.files, 100U);
}

}  // namespace
}  // namespace vitrine::symbol
