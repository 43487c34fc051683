// The two ways to find functions in a symbol table, against each other.
#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/memory.hpp"
#include "elf/file.hpp"
#include "symbol/function_symbols.hpp"

namespace vitrine::symbol {
namespace {

constexpr Address code = 0x1000, end_of_code = code + 100;

/// A file that has nothing but symbols; its headers are not in its bytes.
struct Table {
  std::vector<Elf64_Sym> symbols;
  std::string names = std::string(1, '\0');
  elf::File elf;

  void add(const std::string& name, Address start, std::uint64_t size, int type, int section) {
    Elf64_Sym symbol{};
    symbol.st_name = static_cast<Elf64_Word>(names.size());
    symbol.st_value = start;
    symbol.st_size = size;
    symbol.st_info = static_cast<unsigned char>(ELF64_ST_INFO(STB_LOCAL, type));
    symbol.st_shndx = static_cast<Elf64_Section>(section);
    symbols.push_back(symbol);
    names.append(name).push_back('\0');
  }

  ByteMemory file() {
    std::vector<std::byte> bytes(symbols.size() * sizeof symbols[0] + names.size());
    const std::size_t size = symbols.size() * sizeof symbols[0];
    std::memcpy(bytes.data(), symbols.data(), size);
    std::memcpy(bytes.data() + size, names.data(), names.size());
    elf.machine = EM_X86_64;
    elf.sections.resize(4);
    elf.sections[1].flags = SHF_EXECINSTR | SHF_ALLOC;
    elf.sections[1].address = code;
    elf.sections[1].size = end_of_code - code;
    elf.sections[2].type = SHT_SYMTAB;
    elf.sections[2].size = size;
    elf.sections[2].link = 3;
    elf.sections[3].type = SHT_STRTAB;
    elf.sections[3].offset = size;
    elf.sections[3].size = names.size();
    return ByteMemory(std::move(bytes));
  }
};

std::string text(std::string_view name, Address start, bool has_size) {
  return std::string(name) + " at " + hex(start) + (has_size ? "" : " without a size");
}

void expect_equal(Table& table, int round) {
  ByteMemory file = table.file();
  const auto index = FunctionSymbols::read(file, table.elf, SHT_SYMTAB);
  ASSERT_TRUE(index);
  auto passes = FunctionTable::find(file, table.elf, SHT_SYMTAB);
  ASSERT_TRUE(passes);
  std::vector<Address> addresses;
  for (Address address = end_of_code + 40; address-- > code - 5;) addresses.push_back(address);
  addresses.push_back(addresses.front());
  const auto found = passes->find(addresses);
  ASSERT_EQ(found.size(), addresses.size());
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const auto expected = index->find(addresses[i]);
    EXPECT_EQ(found[i] ? text(found[i]->name, found[i]->start, found[i]->has_size) : "none",
              expected ? text(expected->name, expected->start, expected->has_size) : "none")
        << "round " << round << ", " << hex(addresses[i]);
  }
}

TEST(FunctionTable, FindsByPassesWhatItsIndexHas) {
  std::mt19937 random(11);
  const std::vector<std::string> names{"f", "g", "f@@V1", "", "$x", "$d.1", "label", "@V"};
  for (int round = 0; round < 300; ++round) {
    Table table;
    for (auto count = random() % 30; count-- > 0;) {
      const int types[] = {STT_FUNC, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, STT_OBJECT};
      const int sections[] = {1, 1, 1, 1, SHN_UNDEF, SHN_ABS, 2};
      table.add(names[random() % names.size()] + std::to_string(random() % 3),
                code - 10 + random() % 120, random() % 3 == 0 ? 0 : random() % 40,
                types[random() % 5], sections[random() % 7]);
      if (random() % 4 == 0) table.add(names[random() % names.size()], code + 3, 0, STT_NOTYPE, 1);
    }
    expect_equal(table, round);
  }
}

/// Sizes that reach beyond the end of the address space, and more functions around each address than a pass goes on
/// with.
TEST(FunctionTable, FindsTheSameInTablesThatNoCompilerMakes) {
  Table table;
  for (unsigned n = 0; n < 5000; ++n) {
    table.add("all" + std::to_string(n), code + n % 7, 100 + n % 3, STT_FUNC, 1);
    table.add("wraps", code + n % 50, ~std::uint64_t{0} - n, STT_FUNC, 1);
  }
  expect_equal(table, 0);
}

TEST(FunctionTable, IsTheSameOnceItIsAskedOften) {
  Table table;
  table.add("first", code, 10, STT_FUNC, 1);
  table.add("second", code + 20, 0, STT_FUNC, 1);
  ByteMemory file = table.file();
  auto found = FunctionTable::find(file, table.elf, SHT_SYMTAB);
  ASSERT_TRUE(found);
  const Address addresses[] = {code + 30, code + 15, code + 9};
  for (int n = 0; n < 40; ++n) {
    const auto all = found->find(addresses);
    ASSERT_TRUE(all[0] && all[2]);
    EXPECT_FALSE(all[1]);
    EXPECT_EQ(all[0]->name, "second");
    EXPECT_EQ(all[2]->name, "first");
  }
}

TEST(FunctionTable, ReportsWhatItCannotRead) {
  Table table;
  ByteMemory file = table.file();
  EXPECT_EQ(FunctionTable::find(file, table.elf, SHT_DYNSYM).error().code, ErrorCode::not_found);
  table.elf.sections[2].link = 4;
  EXPECT_EQ(FunctionTable::find(file, table.elf, SHT_SYMTAB).error().code, ErrorCode::malformed);
  table.elf.sections[2].link = 3;
  table.elf.sections[3].size = std::uint64_t{1} << 40;
  EXPECT_EQ(FunctionTable::find(file, table.elf, SHT_SYMTAB).error().code, ErrorCode::limit);
}

}  // namespace
}  // namespace vitrine::symbol
