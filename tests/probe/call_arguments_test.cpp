// Where the ABI of a machine has the arguments of a call, against what compilers make of it (see
// also tests/observe/dof_test.cpp, which runs such calls).
#include <gmock/gmock.h>

#include "probe/argument.hpp"
#include "probe/types.hpp"

namespace vitrine::probe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> operands(const std::vector<std::string>& types, Machine machine,
                                  bool return_address = false) {
  std::vector<std::uint8_t> same;
  for (std::size_t i = 0; i < types.size(); ++i) same.push_back(static_cast<std::uint8_t>(i));
  auto found = call_arguments({types, types, same, return_address}, machine).operands;
  for (const std::string& operand : found) {
    const auto compiled = compile_argument(operand, machine, 0x1000, nullptr);
    EXPECT_TRUE(compiled || compiled.error().kind == ArgumentError::Kind::unsupported) << operand;
  }
  return found;
}

TEST(CallArguments, ClassesHaveRegistersOfTheirOwnOnX86_64) {
  EXPECT_THAT(
      operands({"int", "double", "char *", "float", "unsigned short", "char", "long"},
               Machine::x86_64),
      ElementsAre("-4@%edi", "8f@%xmm0", "8@%rsi", "4f@%xmm1", "2@%dx", "-1@%cl", "-8@%r8"));
}

TEST(CallArguments, TheSeventhIsOnTheStackAndOneWordHigherWhereAReturnAddressIs) {
  const std::vector<std::string> eight(8, "uint8_t");
  EXPECT_THAT(operands(eight, Machine::x86_64),
              ElementsAre("1@%dil", "1@%sil", "1@%dl", "1@%cl", "1@%r8b", "1@%r9b", "1@(%rsp)",
                          "1@8(%rsp)"));
  const auto called = operands(eight, Machine::x86_64, true);
  EXPECT_EQ(called[6], "1@8(%rsp)");
  EXPECT_EQ(called[7], "1@16(%rsp)");
}

TEST(CallArguments, ALongDoubleIsAlignedOnTheStackAndTakesNoRegister) {
  EXPECT_THAT(operands({"int", "long double", "int"}, Machine::x86_64),
              ElementsAre("-4@%edi", "10f@(%rsp)", "-4@%esi"));
  const std::vector<std::string> types{"long", "long", "long", "long",        "long",
                                       "long", "int",  "int",  "long double", "int"};
  std::vector<std::string> odd = types;
  odd.erase(odd.begin());
  EXPECT_EQ(operands(types, Machine::x86_64)[8], "10f@16(%rsp)");
  EXPECT_EQ(operands(odd, Machine::x86_64)[7], "10f@16(%rsp)");
  EXPECT_EQ(operands(odd, Machine::x86_64)[8], "-4@32(%rsp)");
}

TEST(CallArguments, AllOnTheStackOfI386WithTheirOwnWidths) {
  EXPECT_THAT(operands({"char", "long long", "double", "void *", "float", "long double", "long"},
                       Machine::i386),
              ElementsAre("-1@(%esp)", "-8@4(%esp)", "8f@12(%esp)", "4@20(%esp)", "4f@24(%esp)",
                          "10f@28(%esp)", "-4@40(%esp)"));
  EXPECT_THAT(operands({"int"}, Machine::i386, true), ElementsAre("-4@4(%esp)"));
}

TEST(CallArguments, OfAarch64) {
  EXPECT_THAT(operands({"int", "const char *", "double", "float", "char"}, Machine::aarch64),
              ElementsAre("-4@w0", "8@x1", "8f@d0", "4f@s1", "1@w2"));
  const std::vector<std::string> ten(10, "int");
  EXPECT_EQ(operands(ten, Machine::aarch64, true)[8], "-4@[sp, 0]");
  EXPECT_EQ(operands(ten, Machine::aarch64)[9], "-4@[sp, 8]");
}

TEST(CallArguments, AfterWhatIsNotKnownNothingIsSaidToBeKnown) {
  const auto found = operands({"int", "struct point", "int"}, Machine::x86_64);
  EXPECT_EQ(found[0], "-4@%edi");
  for (const auto& [index, reason] :
       {std::pair(1U, "\"struct point\""),
        std::pair(2U, "the location of \"struct point\" before it")}) {
    const auto compiled = compile_argument(found[index], Machine::x86_64, 0, nullptr);
    ASSERT_FALSE(compiled);
    EXPECT_EQ(compiled.error().kind, ArgumentError::Kind::unsupported);
    EXPECT_THAT(compiled.error().message, HasSubstr(reason));
  }
  EXPECT_THAT(operands({"shape_t", "__int128"}, Machine::x86_64)[0], HasSubstr("\"shape_t\""));
  EXPECT_THAT(operands({"__int128"}, Machine::x86_64)[0], HasSubstr("too large"));
}

TEST(CallArguments, TranslatedAsTheMapSaysAndNeverWiderThanWhatWasPassed) {
  const std::vector<std::string> passed{"long", "int", "char *", "double"};
  const std::vector<std::string> shown{"string", "uint16_t", "int64_t", "uintptr_t", "int", "int"};
  const std::vector<std::uint8_t> sources{2, 0, 1, 2, 3, 9};
  const auto found = call_arguments({passed, shown, sources, false}, Machine::x86_64);
  EXPECT_THAT(found.operands,
              ElementsAre("8@%rdx", "2@%di", "-4@%esi", "8@%rdx", "8f@%xmm0", HasSubstr("? ")));
  ASSERT_EQ(found.types.size(), 6U);
  EXPECT_EQ(found.types[0].kind, ValueKind::c_string);
  EXPECT_EQ(found.types[0].type, "string");
  EXPECT_EQ(found.types[1].kind, ValueKind::integer);
  EXPECT_EQ(found.types[3].kind, ValueKind::integer);
  EXPECT_EQ(found.types[4].kind, ValueKind::floating);
  EXPECT_EQ(found.types[4].argument, 4U);
}

TEST(CType, WhatItIsByItsSpelling) {
  const auto on = [](const char* spelling, Machine machine = Machine::x86_64) {
    const auto type = c_type(spelling, machine);
    return type ? std::to_string(type->size) + (type->is_signed ? "s" : "u") +
                      std::to_string(static_cast<int>(type->kind))
                : std::string("none");
  };
  const auto kind = [](ValueKind one) { return std::to_string(static_cast<int>(one)); };
  EXPECT_EQ(on("const char *"), "8u" + kind(ValueKind::c_string));
  EXPECT_EQ(on("char const * const"), "8u" + kind(ValueKind::c_string));
  EXPECT_EQ(on("char [16]"), "8u" + kind(ValueKind::c_string));
  EXPECT_EQ(on("char *"), on("string"));
  for (const char* pointer : {"char **", "void *", "struct foo *", "int (*)(char)", "int []",
                              "unsigned char *", "char *[4]", "foo_t *", "char (*)(void)"})
    EXPECT_EQ(on(pointer), "8u" + kind(ValueKind::pointer)) << pointer;
  EXPECT_EQ(on("struct foo *", Machine::i386), "4u" + kind(ValueKind::pointer));
  EXPECT_EQ(on("int long unsigned"), "8u0");
  EXPECT_EQ(on("long", Machine::i386), "4s0");
  EXPECT_EQ(on("long long", Machine::i386), "8s0");
  EXPECT_EQ(on("size_t", Machine::i386), "4u0");
  EXPECT_EQ(on("off_t", Machine::i386), "none");
  EXPECT_EQ(on("off_t"), "8s0");
  EXPECT_EQ(on("char"), "1s0");
  EXPECT_EQ(on("char", Machine::aarch64), "1u0");
  EXPECT_EQ(on("unsigned"), "4u0");
  EXPECT_EQ(on("_Bool"), "1u" + kind(ValueKind::boolean));
  EXPECT_EQ(on("enum colour"), "4s0");
  for (const char* unknown :
       {"", "struct foo", "union u", "foo_t", "const", "struct { char * p ; }"})
    EXPECT_EQ(on(unknown), "none") << unknown;
}

}  // namespace
}  // namespace vitrine::probe
