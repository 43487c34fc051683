// Symbol lookup by both kinds of hash table, and in the symbol table of a file.
#include "elf/symbols.hpp"

#include <gmock/gmock.h>

#include "support/buffer_memory.hpp"
#include "support/elf_image.hpp"

namespace vitrine::elf {
namespace {

using test::BufferMemory;
using test::ElfImage;

constexpr Address loaded_at = 0x7f00'1234'0000;

class Lookup : public testing::TestWithParam<bool> {
 protected:
  Result<std::optional<Symbol>> find(std::string_view name) {
    BufferMemory memory;
    memory.place(loaded_at, elf.bytes());
    return find_symbol(memory, *read_dynamic(memory, *read_image(memory, loaded_at)), name);
  }
  void finish() { elf.finish(0, GetParam()); }

  ElfImage elf;
};

TEST_P(Lookup, FindsDefinitionsByName) {
  elf.symbol("wanted_elsewhere", STT_TLS, 0, 0, SHN_UNDEF);
  elf.symbol("first", STT_FUNC, 0x100, 16);
  elf.symbol("second", STT_TLS, 0x18, 8);
  elf.symbol("third", STT_OBJECT, 0x200, 4);
  finish();
  const auto found = find("second");
  ASSERT_TRUE(found && *found);
  EXPECT_EQ(**found, (Symbol{3, 0x18, 8, STT_TLS, STB_GLOBAL, 1}));
  EXPECT_EQ((*find("third"))->value, 0x200U);
  EXPECT_EQ(*find("secon"), std::nullopt);
  EXPECT_EQ(*find("seconds"), std::nullopt);
  EXPECT_EQ(*find("wanted_elsewhere"), std::nullopt);
}

TEST_P(Lookup, TakesTheFirstOfTwoWithOneName) {
  elf.symbol("same", STT_TLS, 8, 8);
  elf.symbol("same", STT_TLS, 16, 8);
  finish();
  EXPECT_EQ((*find("same"))->index, 1U);
}

TEST_P(Lookup, PassesOverNamesOutsideOfTheStringTable) {
  elf.symbol("named", STT_TLS, 8, 8);
  elf.symbol("other", STT_TLS, 16, 8);
  finish();
  elf.put(elf.at_symbols + sizeof(Elf64_Sym), std::uint32_t{0xffff'fff0});
  EXPECT_EQ(*find("named"), std::nullopt);
  EXPECT_EQ((*find("other"))->value, 16U);
}

TEST_P(Lookup, SurvivesAnyFirstWords) {
  elf.symbol("named", STT_TLS, 8, 8);
  finish();
  const ElfImage good = elf;
  for (std::uint64_t word = 0; word < 8; ++word)
    for (const std::uint32_t value :
         {0U, 1U, 2U, 1000U, 0x7fff'ffffU, 0xffff'fffeU, 0xffff'ffffU}) {
      elf = good;
      elf.put(elf.at_hash + 4 * word, value);
      const auto found = find("named");  // whatever it says, it says it soon
      EXPECT_TRUE(!found || !*found || (*found)->value == 8U);
    }
}

INSTANTIATE_TEST_SUITE_P(Hash, Lookup, testing::Values(false, true),
                         [](const auto& row) { return std::string(row.param ? "sysv" : "gnu"); });

TEST(GnuHash, WithoutBucketsOrBloomWordsIsMalformedOrEmpty) {
  for (const auto& [word, code] : {std::pair(2, ErrorCode::malformed), {0, ErrorCode::failed}}) {
    ElfImage elf;
    elf.symbol("named", STT_TLS, 8, 8);
    elf.finish();
    elf.put(elf.at_hash + 4 * static_cast<std::uint64_t>(word), std::uint32_t{0});
    BufferMemory memory;
    memory.place(loaded_at, elf.bytes());
    const auto found =
        find_symbol(memory, *read_dynamic(memory, *read_image(memory, loaded_at)), "named");
    if (found)
      EXPECT_EQ(*found, std::nullopt);
    else
      EXPECT_EQ(found.error().code, code);
  }
}

TEST(GnuHash, ChainWithoutAnEndEndsWithTheModule) {
  ElfImage elf;
  elf.symbol("named", STT_TLS, 8, 8);
  elf.finish();
  const std::uint64_t chain = elf.at_hash + 28;
  for (std::uint64_t at = chain; at + 4 <= ElfImage::size; at += 4) elf.put(at, std::uint32_t{2});
  // What the chain overwrote (the dynamic section) is read from another copy.
  ElfImage intact;
  intact.symbol("named", STT_TLS, 8, 8);
  intact.finish();
  BufferMemory good, bad;
  good.place(loaded_at, intact.bytes());
  bad.place(loaded_at, elf.bytes());
  const auto dynamic = read_dynamic(good, *read_image(good, loaded_at));
  EXPECT_EQ(*find_symbol(bad, *dynamic, "named"), std::nullopt);
}

TEST(SysvHash, ChainThatIsACircleEnds) {
  ElfImage elf;
  elf.symbol("one", STT_TLS, 8, 8);
  elf.symbol("two", STT_TLS, 8, 8);
  elf.finish(0, true);
  elf.put(elf.at_hash + 4 * (2 + 1 + 2), std::uint32_t{1});  // chain[2] = 1
  BufferMemory memory;
  memory.place(loaded_at, elf.bytes());
  EXPECT_EQ(*find_symbol(memory, *read_dynamic(memory, *read_image(memory, loaded_at)), "three"),
            std::nullopt);
}

// A file: header, .strtab, .symtab, section headers.
class File {
 public:
  explicit File(const std::vector<std::pair<std::string, std::uint8_t>>& symbols) {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_machine = EM_X86_64;
    header.e_shentsize = sizeof(Elf64_Shdr);
    std::string names(1, '\0');
    std::vector<Elf64_Sym> table(1);
    for (const auto& [name, binding] : symbols) {
      Elf64_Sym symbol{};
      // As linkers do, a name shares the tail of a longer one.
      symbol.st_name = static_cast<std::uint32_t>(names.size() + 3);
      symbol.st_info = static_cast<std::uint8_t>(ELF64_ST_INFO(binding, STT_TLS));
      symbol.st_shndx = 1;
      symbol.st_value = 8 * table.size();
      names += "my_" + name + '\0';
      table.push_back(symbol);
    }
    sections[1].sh_offset = sizeof header;
    sections[1].sh_size = names.size();
    sections[2].sh_type = SHT_SYMTAB;
    sections[2].sh_link = 1;
    sections[2].sh_offset = sections[1].sh_offset + names.size();
    sections[2].sh_size = table.size() * sizeof(Elf64_Sym);
    header.e_shoff = sections[2].sh_offset + sections[2].sh_size;
    header.e_shnum = 3;
    append(std::as_bytes(std::span(&header, 1)));
    append(std::as_bytes(std::span(names)));
    append(std::as_bytes(std::span(table)));
  }

  auto find(std::string_view name) {
    std::vector<std::byte> whole = bytes_;
    const auto tail = std::as_bytes(std::span(sections));
    whole.insert(whole.end(), tail.begin(), tail.end());
    BufferMemory memory;
    memory.place(0, whole);
    return find_file_symbols(memory, {&name, 1});
  }

  std::array<Elf64_Shdr, 3> sections{};

 private:
  void append(std::span<const std::byte> more) {
    bytes_.insert(bytes_.end(), more.begin(), more.end());
  }
  std::vector<std::byte> bytes_;
};

TEST(FileSymbols, AreFoundGlobalBeforeLocal) {
  File file({{"slot", STB_LOCAL}, {"other", STB_GLOBAL}, {"slot", STB_GLOBAL}});
  const auto found = file.find("slot");
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_TRUE(found->front());
  EXPECT_EQ(found->front()->value, 24U);
  EXPECT_EQ(file.find("absent")->front(), std::nullopt);
}

TEST(FileSymbols, OfAStrippedFileAreNotFound) {
  File file({{"slot", STB_GLOBAL}});
  file.sections[2].sh_type = SHT_PROGBITS;
  EXPECT_EQ(file.find("slot").error().code, ErrorCode::not_found);
}

TEST(FileSymbols, OfAFileThatLiesAreAnError) {
  const auto with = [](auto change) {
    File file({{"slot", STB_GLOBAL}});
    change(file.sections);
    return file.find("slot").error().code;
  };
  EXPECT_EQ(with([](auto& s) { s[2].sh_link = 99; }), ErrorCode::malformed);
  EXPECT_EQ(with([](auto& s) { s[1].sh_offset = 1U << 30; }), ErrorCode::malformed);
  EXPECT_EQ(with([](auto& s) { s[1].sh_size = 1ULL << 40; }), ErrorCode::limit);
  EXPECT_EQ(with([](auto& s) { s[2].sh_size = 1ULL << 40; }), ErrorCode::limit);
  EXPECT_EQ(with([](auto& s) { s[2].sh_offset = ~0ULL - 10; }), ErrorCode::malformed);
}

}  // namespace
}  // namespace vitrine::elf
