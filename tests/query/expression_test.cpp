// What conditions may look like, and what is said of those that make no sense.
#include "query/expression.hpp"

#include <gmock/gmock.h>

#include "base/limits.hpp"

namespace vitrine::query {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Wrong {
  std::string text;
  std::string message;
  std::string remedy;  ///< its beginning
};

TEST(Expression, PointsAtWhatMakesNoSense) {
  const Wrong wrong[] = {
      {"", "the condition is empty", "\n^ "},
      {"price >", "the right operand is missing before the end", "price >\n       ^ "},
      {"price > > 2", "is missing before `>`", "price > > 2\n        ^ "},
      {"price = 2", "unknown operator `=`", "price = 2\n      ^ equality is =="},
      {"a =~ 'x'", "unknown operator `=~`", "a =~ 'x'\n  ^ wildcards"},
      {"(a == 1", "missing closing parenthesis", "(a == 1\n^ close"},
      {"a == 1)", "unexpected `)`", "a == 1)\n      ^ "},
      {"a == 1 b == 2", "unexpected `b`", "a == 1 b == 2\n       ^ connect"},
      {"1 < a < 3", "unexpected `<`", "1 < a < 3\n      ^ "},
      {"a == \"x", "missing closing quote", "a == \"x\n     ^ "},
      {"a == '\\q'", "unknown escape", "a == '\\q'\n      ^ "},
      {"a == 4bf9", "`4bf9` is not a number", "a == 4bf9\n     ^ 17"},
      {"a-b == 1", "unexpected `-` in a name", "a-b == 1\n ^ quote"},
      {"tenant ~ acme*", "unexpected character", "tenant ~ acme*\n             ^ quote"},
      {"17", "missing comparison before the end", "17\n  ^ a comparison"},
      {"'x' and a", "missing comparison before `and`", "'x' and a\n    ^ "},
      {"and == 1", "not `and`", "and == 1\n^ a label of that name: label[\"and\"]"},
      {"strlen(arg0) == 1", "no such function: `strlen`", "strlen(arg0) == 1\n^ str()"},
      {"str(pid) == 'x'", "str() reads the memory that an argument points to",
       "str(pid) == 'x'\n    ^ str"},
      {"str(arg0 == 1", "expected `)`", "str(arg0 == 1\n         ^ "},
      {"hex(arg0, 4) == 1", "hex() takes one argument", "hex(arg0, 4) == 1\n          ^ "},
      {"bytes(arg0, 5000) == 'x'", "invalid number of bytes",
       "bytes(arg0, 5000) == 'x'\n            ^ 1 to 4096"},
      {"label[tenant] == 1", "expected a label key in quotes, not `tenant`",
       "label[tenant] == 1\n      ^ "},
      {"a. == 1", "`a.` is not a name", "a. == 1\n ^ "},
      {"a == \x01", "unexpected character", "a ==  \n     ^ "},
  };
  for (const Wrong& each : wrong) {
    const auto parsed = Expression::parse(each.text);
    ASSERT_FALSE(parsed) << each.text;
    EXPECT_EQ(parsed.error().code, ErrorCode::usage);
    EXPECT_THAT(parsed.error().message, HasSubstr(each.message)) << each.text;
    EXPECT_THAT(parsed.error().remedy, StartsWith(each.remedy)) << each.text;
  }
}

TEST(Expression, PointsIntoLongTextsToo) {
  const std::string padding(200, ' ');
  const auto parsed = Expression::parse("a == 1 and " + padding + "'é' = 2 and x == 3" + padding);
  ASSERT_FALSE(parsed);
  const std::string& remedy = parsed.error().remedy;
  const std::size_t line = remedy.find('\n');
  EXPECT_THAT(remedy, StartsWith("… "));
  // The caret is as many columns in as `=`: é has one more byte than columns, … has two.
  EXPECT_EQ(remedy.find('^') - line - 1, remedy.find('=') - 1 - 2);
  EXPECT_LT(line, 100U);
}

TEST(Expression, BoundsLengthDepthAndParts) {
  EXPECT_FALSE(Expression::parse(std::string(limits::query_bytes + 1, ' ')));
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '(') + "a" + std::string(depth, ')');
  };
  EXPECT_TRUE(Expression::parse(nested(limits::query_nesting - 1)));
  EXPECT_THAT(Expression::parse(nested(limits::query_nesting)).error().message,
              HasSubstr("nested too deeply"));
  EXPECT_FALSE(Expression::parse(std::string(4000, '!') + "a"));
  std::string many = "a";
  for (int i = 0; i < 127; ++i) many += " or a";
  EXPECT_TRUE(Expression::parse(many));
  many += " or a";
  EXPECT_THAT(Expression::parse(many).error().message, HasSubstr("too many parts"));
}

TEST(Expression, ReadsEscapesAndNumbers) {
  const auto literal = [](std::string_view text) {
    return std::get<Literal>(Expression::parse(text).value().steps().at(0).right);
  };
  EXPECT_EQ(literal(R"(a == "\x41\n\t\\\"'")"), Literal(std::string("A\n\t\\\"'")));
  EXPECT_EQ(literal("a == -5"), Literal(Number(std::int64_t{-5})));
  EXPECT_EQ(literal("a == 0xff"), Literal(Number(std::int64_t{255})));
  EXPECT_EQ(literal("a == 18446744073709551615"), Literal(Number(~std::uint64_t{0})));
  EXPECT_EQ(literal("a == 1_000"), Literal(Number(std::int64_t{1000})));
  EXPECT_EQ(literal("a == 1e-3"), Literal(Number(0.001)));
}

}  // namespace
}  // namespace vitrine::query
