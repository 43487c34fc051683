#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.hpp"
#include "probe/argument.hpp"

namespace vitrine::probe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SplitArguments, KnowsNone) {
  for (const char* none : {"", ":", ":8@%rax", " ", " \t\r\n"})
    EXPECT_THAT(split_arguments(none), IsEmpty()) << none;
}

TEST(SplitArguments, SplitsBeforeSizes) {
  EXPECT_THAT(split_arguments("8@%rax -4@8(%rsp) 4f@.LC0(%rip)"),
              ElementsAre("8@%rax", "-4@8(%rsp)", "4f@.LC0(%rip)"));
  EXPECT_THAT(split_arguments(" \t8@%rax\r\n-4@%edi  "), ElementsAre("8@%rax", "-4@%edi"));
  EXPECT_THAT(split_arguments("-4@[sp, 32] 8@[x0, w1, uxtw 3] -8f@x0"),
              ElementsAre("-4@[sp, 32]", "8@[x0, w1, uxtw 3]", "-8f@x0"));
  EXPECT_THAT(split_arguments("-4@DWORD PTR -24[rbp] 8@QWORD PTR [rax + 8] 4@$r3, 16"),
              ElementsAre("-4@DWORD PTR -24[rbp]", "8@QWORD PTR [rax + 8]", "4@$r3, 16"));
  // An @ within an operand is no size.
  EXPECT_THAT(split_arguments("8@f@GOTPCREL(%rip) -4@%fs:x@tpoff"),
              ElementsAre("8@f@GOTPCREL(%rip)", "-4@%fs:x@tpoff"));
}

TEST(SplitArguments, SplitsOperandsWithoutSizes) {
  EXPECT_THAT(split_arguments("%rax 4(%rsi) $7"), ElementsAre("%rax", "4(%rsi)", "$7"));
  EXPECT_THAT(split_arguments("%rax -8(%rbp)"), ElementsAre("%rax", "-8(%rbp)"));
  EXPECT_THAT(split_arguments("8 + 4(%rsp) foo - 4"), ElementsAre("8 + 4(%rsp)", "foo - 4"));
  EXPECT_THAT(split_arguments("DWORD PTR -24[rbp] rax"), ElementsAre("DWORD PTR -24[rbp]", "rax"));
  EXPECT_THAT(split_arguments("x0 [sp, 16] w3"), ElementsAre("x0", "[sp, 16]", "w3"));
}

TEST(SplitArguments, SplitsListsThatMixBoth) {
  EXPECT_THAT(split_arguments("-4@%edi %rax 8@%rsi 4(%rsp) $5"),
              ElementsAre("-4@%edi", "%rax", "8@%rsi", "4(%rsp)", "$5"));
}

TEST(SplitArguments, KeepsIndexesAfterNonsense) {
  EXPECT_THAT(split_arguments("8@((((%rax 4@%edi"), ElementsAre("8@((((%rax", "4@%edi"));
  EXPECT_THAT(split_arguments("8@[x0 4@x1 8@]"), ElementsAre("8@[x0", "4@x1", "8@]"));
  EXPECT_THAT(split_arguments("8@ 4@%edi"), ElementsAre("8@", "4@%edi"));
  EXPECT_THAT(split_arguments("8@not an operand 4@%edi"),
              ElementsAre("8@not an operand", "4@%edi"));
  EXPECT_THAT(split_arguments("((( %rax"), ElementsAre("(((", "%rax"));
  EXPECT_THAT(split_arguments("8@%rax,"), ElementsAre("8@%rax,"));
}

TEST(SplitArguments, BoundsItsWork) {
  std::string many;
  for (int i = 0; i < 10000; ++i) many += "8@%rax ";
  const auto split = split_arguments(many);
  EXPECT_EQ(split.size(), limits::argument_text / 7 + 1);
  EXPECT_THAT(split_arguments(std::string(1 << 20, '(')), ::testing::SizeIs(1));
  EXPECT_THAT(split_arguments(std::string(1 << 20, ' ')), IsEmpty());
}

}  // namespace
}  // namespace vitrine::probe
