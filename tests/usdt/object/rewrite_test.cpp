// One object, bytes in and bytes out.
#include <elf.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>

#include "usdt/object/workshop.hpp"
#include "usdt/object_file.hpp"
#include "usdt/object_parser.hpp"

namespace vitrine::usdt {
namespace {

using test::Workshop;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

const std::string& program() {
  static const std::string text = std::string(test::shop_header) + test::shop_program;
  return text;
}

Result<RewrittenObject> process(std::span<const std::byte> bytes, const SiteRules& rules = {}) {
  static const Definition definition = test::shop();
  static const DeclaredProbes declared(definition);
  // As a worker hands it over.
  return unpack_rewritten(pack_rewritten(rewrite(bytes, declared, rules, "salt")), declared)
      .value();
}

std::map<std::string, std::pair<std::size_t, std::size_t>> sites_by_function(
    const RewrittenObject& object) {
  std::map<std::string, std::pair<std::size_t, std::size_t>> counts;
  for (const FunctionSites& one : object.functions) {
    counts[one.function].first += one.offsets.size();
    counts[one.function].second += one.enabled_offsets.size();
  }
  return counts;
}

struct MachineCase {
  const char* compiler;
  bool questions;  ///< patched in place
};

class EveryMachine : public testing::TestWithParam<MachineCase> {};

INSTANTIATE_TEST_SUITE_P(, EveryMachine,
                         testing::Values(MachineCase{"gcc -O2 -fPIE", true},
                                         MachineCase{"clang -O2 -fPIE", true},
                                         MachineCase{"gcc -O0 -fno-pie", true},
                                         MachineCase{"i686-linux-gnu-gcc -O2 -fPIE", true},
                                         MachineCase{"i686-linux-gnu-gcc -O2 -fno-pie", true},
                                         MachineCase{"aarch64-linux-gnu-gcc -O2", false},
                                         MachineCase{"clang -O2 --target=aarch64-linux-gnu -fPIE "
                                                     "-isystem /usr/aarch64-linux-gnu/include",
                                                     false}));

TEST_P(EveryMachine, FindsTheSitesOfEachFunction) {
  Workshop shop;
  const auto bytes = test::bytes_of(shop.compile("a", program(), GetParam().compiler));
  const auto object = process(bytes);
  ASSERT_TRUE(object) << object.error().message;
  ASSERT_FALSE(object->bytes.empty());
  const std::size_t asked = GetParam().questions ? 1 : 0;
  const auto found = sites_by_function(*object);
  EXPECT_EQ(found.at("work"), std::pair(std::size_t{1}, asked));
  EXPECT_EQ(found.at("pub"), std::pair(std::size_t{1}, std::size_t{0}));
  EXPECT_EQ(found.at("tail"), std::pair(std::size_t{1}, std::size_t{0}));
  EXPECT_EQ(found.contains("ask"), GetParam().questions);
  EXPECT_FALSE(found.contains("main"));
  // The address taken, and aarch64's two questions.
  EXPECT_GE(object->left_to_stubs.size(), GetParam().questions ? 1U : 3U);
}

TEST_P(EveryMachine, SecondRunChangesNothing) {
  Workshop shop;
  const auto bytes = test::bytes_of(shop.compile("a", program(), GetParam().compiler));
  const auto once = process(bytes);
  ASSERT_TRUE(once && !once->bytes.empty());
  const auto twice = process(once->bytes);
  ASSERT_TRUE(twice) << twice.error().message;
  EXPECT_TRUE(twice->bytes.empty());
  ASSERT_EQ(once->functions.size(), twice->functions.size());
  for (std::size_t i = 0; i < once->functions.size(); ++i) {
    EXPECT_EQ(once->functions[i].alias, twice->functions[i].alias);
    EXPECT_EQ(once->functions[i].offsets, twice->functions[i].offsets);
    EXPECT_EQ(once->functions[i].enabled_offsets, twice->functions[i].enabled_offsets);
  }
}

/// What is new is behind the old end; what was there changes in the calls' own bytes, the types of
/// their relocations and two section headers alone.
TEST_P(EveryMachine, MovesNothing) {
  Workshop shop;
  const auto bytes = test::bytes_of(shop.compile("a", program(), GetParam().compiler));
  const auto object = process(bytes);
  ASSERT_TRUE(object && !object->bytes.empty());
  const auto before = ObjectFile::read(bytes), after = ObjectFile::read(object->bytes);
  ASSERT_TRUE(before && after);
  ASSERT_EQ(before->sections().size(), after->sections().size());
  const std::uint32_t symbols = before->symbol_table();
  const std::uint32_t names = before->sections()[symbols].link;
  for (std::uint32_t i = 1; i < before->sections().size(); ++i) {
    const elf::Section &old = before->sections()[i], &now = after->sections()[i];
    EXPECT_EQ(old.type, now.type);
    EXPECT_EQ(old.flags, now.flags);
    EXPECT_EQ(old.link, now.link);
    EXPECT_EQ(old.info, now.info);
    const auto had = before->content(i), has = after->content(i);
    if (i == symbols || i == names) {
      ASSERT_GT(has.size(), had.size());
      EXPECT_EQ(std::memcmp(has.data(), had.data(), had.size()), 0);
      EXPECT_GE(now.offset, bytes.size());
      continue;
    }
    EXPECT_EQ(old.offset, now.offset);
    ASSERT_EQ(had.size(), has.size());
    const bool code_or_relocations =
        (old.flags & SHF_EXECINSTR) != 0 || old.type == SHT_RELA || old.type == SHT_REL;
    if (!code_or_relocations && !had.empty()) {
      EXPECT_EQ(std::memcmp(had.data(), has.data(), had.size()), 0) << before->describe(i);
    }
  }
  ASSERT_EQ(before->relocations().size(), after->relocations().size());
  std::size_t silenced = 0;
  for (std::size_t t = 0; t < before->relocations().size(); ++t) {
    for (std::size_t i = 0; i < before->relocations()[t].count; ++i) {
      const auto old = before->relocation(before->relocations()[t], i);
      const auto now = after->relocation(after->relocations()[t], i);
      EXPECT_EQ(old.symbol, now.symbol);
      EXPECT_EQ(old.offset, now.offset);
      if (old.type == now.type) continue;
      EXPECT_EQ(now.type, 0U);
      ++silenced;
    }
  }
  EXPECT_EQ(silenced, GetParam().questions ? 5U : 3U);
}

TEST_P(EveryMachine, AliasesAreHiddenAndHaveNoSize) {
  Workshop shop;
  const auto path = shop.compile("a", program(), GetParam().compiler);
  const auto object = process(test::bytes_of(path));
  ASSERT_TRUE(object && !object->bytes.empty());
  test::write(path, object->bytes);
  const auto ran =
      test::shell("LC_ALL=C readelf -sW " + path + " | grep dtrace | grep '\\$dtrace'");
  std::size_t lines = 0;
  for (std::size_t at = 0; (at = ran.out.find('\n', at)) != std::string::npos; ++at) ++lines;
  // ask has a question alone, and three sites fire.
  EXPECT_EQ(lines, (GetParam().questions ? 4U : 3U) + 3U) << ran.out;
  std::size_t good = 0;
  for (std::size_t at = 0;
       (at = ran.out.find("    0 NOTYPE  GLOBAL HIDDEN", at)) != std::string::npos; ++at)
    ++good;
  EXPECT_EQ(good, lines) << ran.out;
}

std::string functions_and_calls(const std::string& text) {
  return "  .section .note.GNU-stack,\"\",@progbits\n  .text\n" + text;
}

TEST(ContainingFunction, IsTheInnermost) {
  Workshop shop;
  const auto bytes = test::bytes_of(shop.compile("a.S", functions_and_calls(R"(
  .type outer, @function
  .globl outer
outer:
  call __dtrace_shop___done
  .type inner, @function
inner:
  call __dtrace_shop___done
  .size inner, . - inner
  call __dtrace_shop___done
  .size outer, . - outer
)")));
  const auto object = process(bytes);
  ASSERT_TRUE(object) << object.error().message;
  ASSERT_EQ(object->functions.size(), 2U);
  EXPECT_EQ(object->functions[0].function, "outer");
  EXPECT_THAT(object->functions[0].offsets, ElementsAre(0, 10));
  EXPECT_EQ(object->functions[1].function, "inner");
  EXPECT_THAT(object->functions[1].offsets, ElementsAre(0));
}

TEST(ContainingFunction, OfSeveralNamesTheMostVisible) {
  Workshop shop;
  const auto bytes = test::bytes_of(shop.compile("a.S", functions_and_calls(R"(
  .type hidden_name, @function
  .type weak_name, @function
  .type name, @function
  .type versioned, @function
  .weak weak_name
  .globl name, versioned
hidden_name:
weak_name:
versioned:
name:
  call __dtrace_shop___done
  .size hidden_name, . - hidden_name
  .size weak_name, . - weak_name
  .size name, . - name
  .size versioned, . - versioned
  .symver versioned, name@OLD_1
)")));
  const auto object = process(bytes);
  ASSERT_TRUE(object) << object.error().message;
  ASSERT_EQ(object->functions.size(), 1U);
  EXPECT_THAT(object->functions[0].function, testing::AnyOf("name", "versioned"));
  EXPECT_THAT(object->functions[0].alias, testing::Not(HasSubstr("@")));
}

TEST(ContainingFunction, AssemblyWithoutFunctions) {
  Workshop shop;
  const auto bytes = test::bytes_of(shop.compile("a.S", functions_and_calls(R"(
  call __dtrace_shop___done
  nop
entry:
  nop
  call __dtrace_shop___done
)")));
  const auto object = process(bytes);
  ASSERT_TRUE(object) << object.error().message;
  ASSERT_EQ(object->functions.size(), 2U);
  EXPECT_EQ(object->functions[0].function, ".text");
  EXPECT_THAT(object->functions[0].offsets, ElementsAre(0));
  EXPECT_EQ(object->functions[1].function, "entry");
  EXPECT_THAT(object->functions[1].offsets, ElementsAre(1));
}

TEST(Aliases, LocalFunctionsOfOneNameAreTwo) {
  Workshop shop;
  const std::string text = std::string(test::shop_header) +
                           "static __attribute__((noinline,noclone)) int same(int x) { "
                           "__dtrace_shop___done(); __asm__ volatile(\"\"); return x + 1; }\n"
                           "int NAME(int x) { return same(x) + 2; }\n";
  const auto a = shop.compile("a", "#define NAME a\n" + text);
  const auto b = shop.compile("b", "#define NAME b\n" + text);
  const auto both = shop.path("both.o");
  ASSERT_EQ(test::shell("ld -r -o " + both + " " + a + " " + b).status, 0);
  const auto object = process(test::bytes_of(both));
  ASSERT_TRUE(object && !object->bytes.empty());
  ASSERT_EQ(object->functions.size(), 2U);
  EXPECT_EQ(object->functions[0].function, "same");
  EXPECT_EQ(object->functions[1].function, "same");
  EXPECT_NE(object->functions[0].alias, object->functions[1].alias);
  const auto again = process(object->bytes);
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->bytes.empty());
  EXPECT_EQ(again->functions[0].alias, object->functions[0].alias);
  EXPECT_EQ(again->functions[1].alias, object->functions[1].alias);
}

TEST(Aliases, DependOnTheSaltAndTheBytes) {
  Workshop shop;
  auto bytes = test::bytes_of(shop.compile("a", program()));
  const Definition definition = test::shop();
  const DeclaredProbes declared(definition);
  std::set<std::string> aliases;
  for (const char* salt : {"a", "b"}) {
    const auto object = rewrite(bytes, declared, {}, salt);
    ASSERT_TRUE(object);
    aliases.insert(object->functions.front().alias);
  }
  bytes.push_back(std::byte{0});
  const auto object = rewrite(bytes, declared, {}, "a");
  ASSERT_TRUE(object);
  aliases.insert(object->functions.front().alias);
  EXPECT_EQ(aliases.size(), 3U);
}

/// Relocations of compressed sections are at offsets in what they will be unpacked to.
TEST(Sites, CompressedDebugInformation) {
  Workshop shop;
  for (const char* option : {"-gz=zlib", "-gz=zlib-gnu"}) {
    std::string text = program();
    for (int i = 0; i < 300; ++i)
      text += fmt::format("int filler_{}(int x) {{ return x + {}; }}\n", i, i);
    const auto object =
        process(test::bytes_of(shop.compile("a", text, std::string("gcc -O2 -g ") + option)));
    ASSERT_TRUE(object) << object.error().message;
    EXPECT_FALSE(object->bytes.empty());
  }
}

TEST(Sites, LongNopWhereAsked) {
  Workshop shop;
  const auto path = shop.compile("a", program());
  const auto object = process(test::bytes_of(path), {EnabledProtocol::return_value, true});
  ASSERT_TRUE(object && !object->bytes.empty());
  test::write(path, object->bytes);
  EXPECT_THAT(test::shell("objdump -d " + path).out, HasSubstr("0f 1f 44 00 00"));
  const auto again = process(object->bytes);  // either is a site to a later run
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->bytes.empty());
}

TEST(Sites, QuestionsByPointerLookAsFiresDo) {
  Workshop shop;
  const auto bytes = test::bytes_of(shop.compile("a", program()));
  const auto object = process(bytes, {EnabledProtocol::pointer, false});
  ASSERT_TRUE(object && !object->bytes.empty());
  EXPECT_TRUE(object->pointer_protocol);
  EXPECT_FALSE(object->register_protocol);
  const auto again = process(object->bytes, {EnabledProtocol::pointer, false});
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->bytes.empty());
  EXPECT_TRUE(again->pointer_protocol);
}

TEST(Sites, OtherProvidersAreLeftAlone) {
  Workshop shop;
  const auto bytes = test::bytes_of(
      shop.compile("a",
                   "void __dtrace_bank___paid(void); void __dtrace_shop____odd(void);\n"
                   "void f(void) { __dtrace_bank___paid(); __dtrace_shop____odd(); }"));
  const auto object = process(bytes);
  ASSERT_TRUE(object) << object.error().message;
  EXPECT_TRUE(object->bytes.empty());
  EXPECT_THAT(object->undeclared,
              UnorderedElementsAre("__dtrace_bank___paid", "__dtrace_shop____odd"));
}

TEST(Sites, BitcodePassesThrough) {
  Workshop shop;
  for (const char* option : {"-flto", "-flto=thin"}) {
    const auto bytes =
        test::bytes_of(shop.compile("a", program(), std::string("clang -O2 ") + option));
    const auto object = process(bytes);
    ASSERT_TRUE(object) << object.error().message;
    EXPECT_TRUE(object->only_lto);
    EXPECT_TRUE(object->bytes.empty());
    EXPECT_EQ(object->machine, find_machine(EM_X86_64, true));
  }
  const auto slim = process(test::bytes_of(shop.compile("a", program(), "gcc -O2 -flto")));
  ASSERT_TRUE(slim && slim->bytes.empty());
  EXPECT_TRUE(slim->only_lto);
  const auto fat =
      process(test::bytes_of(shop.compile("a", program(), "gcc -O2 -flto -ffat-lto-objects")));
  ASSERT_TRUE(fat && !fat->bytes.empty());
  EXPECT_TRUE(fat->fat_lto);
}

}  // namespace
}  // namespace vitrine::usdt
