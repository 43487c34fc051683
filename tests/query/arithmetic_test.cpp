// Arithmetic in conditions and lists: what it looks like, and what it is.
#include "query/arithmetic.hpp"

#include <gmock/gmock.h>

#include <array>

#include "query/compile.hpp"
#include "query/expression.hpp"
#include "query/show.hpp"
#include "query/site.hpp"

namespace vitrine::query {
namespace {

using test::ArithmeticChance;
using test::CNumber;
using test::Computed;
using test::OrderSite;
using testing::HasSubstr;

/// Three arguments: an int, an unsigned and a signed 64-bit number; and one of two bytes.
struct NumberSite {
  std::vector<vitrine_operand> operands{test::operand(4, VITRINE_SIGNED), test::operand(8),
                                        test::operand(8, VITRINE_SIGNED), test::operand(2)};
  Arguments arguments() const { return {operands, {}}; }
};

using Words = std::array<std::uint64_t, 4>;

/// Runs the steps as calculation.h describes them. Nothing: a division by 0.
std::optional<std::uint64_t> run(const std::vector<CalculationStep>& steps, const Words& words) {
  std::vector<std::uint64_t> stack;
  const auto pop = [&] {
    const std::uint64_t top = stack.at(stack.size() - 1);
    stack.pop_back();
    return top;
  };
  bool failed = false;
  for (const CalculationStep& step : steps) {
    if (step.kind == VITRINE_CALCULATE_PUSH) {
      stack.push_back(step.argument ? words.at(*step.argument) : step.constant);
      EXPECT_LE(stack.size(), std::size_t{VITRINE_CALCULATION_DEPTH});
      continue;
    }
    const std::uint64_t right = pop();
    const std::uint64_t left = step.kind >= VITRINE_CALCULATE_ADD ? pop() : right;
    __u64 result = 0;
    failed =
        vitrine_calculate(step.kind, step.is_signed ? 1 : 0, left, right, &result) != 0 || failed;
    stack.push_back(result);
  }
  EXPECT_EQ(stack.size(), 1U);
  if (failed) return std::nullopt;
  return stack.front();
}

Capture capture_of_text(const std::string& text, const Arguments& site) {
  const auto item = parse_item(text);
  EXPECT_TRUE(item) << text << ": " << item.error().message;
  std::vector<Capture> captures;
  if (item) query::bind(item->subject, site, captures);
  EXPECT_EQ(captures.size(), 1U) << text;
  return captures.empty() ? Capture{} : captures.front();
}

TEST(Arithmetic, IsThatOfC) {
  ArithmeticChance chance(20261123);
  const NumberSite site;
  std::size_t divided_by_zero = 0, is_unsigned = 0, asked = 0;
  while (asked < 6000) {
    const Words words{
        static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t>(chance.word())}),
        chance.word(), chance.word(), chance.word() & 0xffff};
    const std::vector<Computed> arguments{
        {"arg0", CNumber::of(static_cast<std::int64_t>(words[0]), false)},
        {"arg1", CNumber::of(static_cast<test::Wide>(words[1]), true)},
        {"arg2", CNumber::of(static_cast<std::int64_t>(words[2]), false)},
        {"arg3", CNumber::of(static_cast<test::Wide>(words[3]), false)}};
    const Computed wanted = chance.expression(arguments, 4);
    if (wanted.text.find("arg") == std::string::npos) continue;
    const auto item = parse_item(wanted.text);
    if (!item) {  // of constants
      EXPECT_EQ(item.error().message, "division by 0") << wanted.text;
      EXPECT_FALSE(wanted.number) << wanted.text;
      continue;
    }
    ++asked;
    if (item->subject.kind != Subject::Kind::calculated) continue;  // one argument in parentheses
    const Capture capture = capture_of_text(wanted.text, site.arguments());
    const auto got = run(capture.calculation.steps, words);
    ASSERT_EQ(got.has_value(), wanted.number.has_value()) << wanted.text;
    divided_by_zero += got ? 0 : 1;
    if (!got) continue;
    ASSERT_EQ(*got, wanted.number->bits()) << wanted.text;
    ASSERT_EQ(capture.calculation.is_signed, !wanted.number->is_unsigned) << wanted.text;
    is_unsigned += wanted.number->is_unsigned ? 1 : 0;
  }
  // Else the test would say little.
  EXPECT_GT(divided_by_zero, 30U);
  EXPECT_GT(is_unsigned, 600U);
  EXPECT_LT(is_unsigned, 5400U);
}

TEST(Arithmetic, BindsAsInC) {
  const NumberSite site;
  const Words words{7, 6, 5, 4};
  const auto value = [&](const std::string& text) {
    return run(capture_of_text(text, site.arguments()).calculation.steps, words);
  };
  const std::pair<const char*, std::uint64_t> cases[] = {{"arg0 + arg1 * arg2", 37},
                                                         {"(arg0 + arg1) * arg2", 65},
                                                         {"arg0 - arg1 - 1", 0},
                                                         {"arg0 & 3 + 1", 4},
                                                         {"1 << arg3 >> 1", 8},
                                                         {"arg0 | 8 ^ 8 & 8", 7},
                                                         {"arg0-1", 6},
                                                         {"arg0 -1", 6},
                                                         {"-arg0 + 8", 1},
                                                         {"~arg0 & 0xf", 8},
                                                         {"17 % arg2", 2},
                                                         {"arg0 << 64", 0}};
  for (const auto& [text, wanted] : cases) EXPECT_EQ(value(text), wanted) << text;
}

TEST(Arithmetic, OfConstantsIsAConstant) {
  const auto steps = Expression::parse("arg0 == 1 << 4 | 2").value().steps();
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(std::get<Literal>(steps[0].right), Literal(Number(std::int64_t{18})));
  EXPECT_EQ(std::get<Literal>(Expression::parse("arg0 == -(2 + 3)").value().steps()[0].right),
            Literal(Number(std::int64_t{-5})));
}

TEST(Arithmetic, FollowsPointers) {
  const NumberSite site;
  const Capture field = capture_of_text("*(int32*)(arg1 + 8)", site.arguments());
  ASSERT_EQ(field.calculation.steps.size(), 4U);
  EXPECT_EQ(field.calculation.steps.back().kind, VITRINE_CALCULATE_LOAD);
  EXPECT_EQ(field.calculation.steps.back().size, 4);
  EXPECT_TRUE(field.calculation.is_signed);
  EXPECT_EQ(field.calculation.size, 4) << "as hex() prints it";
  EXPECT_FALSE(capture_of_text("*(uint64_t*)arg1", site.arguments()).calculation.is_signed);
  EXPECT_TRUE(capture_of_text("*(uint8*)arg1", site.arguments()).calculation.is_signed)
      << "64 signed bits hold it";
  const Capture text = capture_of_text("str(*(uint64*)(arg1 + 16), 4)", site.arguments());
  EXPECT_EQ(text.form, Form::text);
  EXPECT_EQ(text.length, 4U);
  EXPECT_TRUE(text.until_nul);
  EXPECT_EQ(capture_of_text("buf(arg1 + 1, 4)", site.arguments()).form, Form::bytes);
  const auto wire = compile_calculation(field.calculation, site.arguments(), 3);
  ASSERT_EQ(wire.size(), 5U);
  EXPECT_EQ(wire[3].operand.size, 4);
  EXPECT_EQ(wire[3].operand.flags, VITRINE_SIGNED);
  EXPECT_EQ(wire[4].kind, VITRINE_CALCULATE_STORE);
  EXPECT_EQ(wire[4].capture, 3);
}

TEST(Arithmetic, StandsWhereConditionsDo) {
  for (const char* text :
       {"arg0 & 4", "(arg0 & 4)", "arg0 & 4 == 4", "(arg0 & 4) == 4 and (arg1 + 1) * 2 > 5",
        "((arg0 + 1)) == 2", "not (arg0 & 1)", "(arg0 == 1 or arg1 + 1 > 2) and arg2",
        "(~arg0 & 1) == 0", "*(int32*)arg1 == -1", "5 < arg0 * 2", "arg0 % 2 != 0", "-arg0 == 5",
        "(tenant) and (tenant ~ 'a*')"}) {
    const auto parsed = Expression::parse(text);
    EXPECT_TRUE(parsed) << text << ": " << parsed.error().message;
  }
  EXPECT_EQ(Expression::parse("(arg0 & 4) == 4 and (arg1 + 1) * 2 > 5").value().steps().size(), 3U);
}

TEST(Arithmetic, SaysWhatItCannotTake) {
  const auto message = [](std::string_view text) {
    const auto parsed = Expression::parse(text);
    return parsed ? "" : parsed.error().message;
  };
  EXPECT_THAT(message("arg0 + 'x' == 1"), HasSubstr("arithmetic takes integers"));
  EXPECT_THAT(message("arg0 + 2.5 == 1"), HasSubstr("arithmetic takes integers"));
  EXPECT_THAT(message("hex(arg0) + 1 == 1"), HasSubstr("not functions of them"));
  EXPECT_THAT(message("pid + 1 == 1"), HasSubstr("arithmetic takes integer arguments"));
  EXPECT_THAT(message("label.x + 1 == 1"), HasSubstr("arithmetic takes integer arguments"));
  EXPECT_THAT(message("*arg1 == 1"), HasSubstr("type of what a pointer points to is missing"));
  EXPECT_THAT(message("*(int*)arg1 == 1"), HasSubstr("`int` is not a type of integers"));
  EXPECT_THAT(message("arg0 / 0 == 1 / 0"), HasSubstr("division by 0"));
  EXPECT_THAT(message("(arg0 + 1"), HasSubstr("missing closing parenthesis"));
  EXPECT_THAT(message("arg0 +"), HasSubstr("the end"));
  EXPECT_THAT(message("str(str(arg0)) == 'x'"), HasSubstr("str() takes an argument"));
  std::string deep(100, '(');
  EXPECT_THAT(message(deep + "arg0" + std::string(100, ')') + " == 1"),
              HasSubstr("nested too deeply"));
  std::string calls;
  for (int i = 0; i < 900; ++i) calls += "hex(";
  EXPECT_THAT(message(calls), HasSubstr("nested too deeply"));
  std::string right = "arg0";
  for (int i = 0; i < 8; ++i) right = "arg0 - (" + right + ")";
  EXPECT_THAT(message(right + " == 1"), HasSubstr("too much arithmetic"));
  std::string many = "arg0";
  for (int i = 0; i < 24; ++i) many += " + arg0";
  EXPECT_THAT(message(many + " == 1"), HasSubstr("too much arithmetic"));
}

TEST(Arithmetic, OfFractionsAndAbsentArgumentsIsNothing) {
  const OrderSite site;
  const auto complaints = [&](std::string_view text) {
    std::vector<Capture> captures;
    const auto expression = Expression::parse(text).value();
    return query::bind(expression, site.arguments(), captures).complaints();
  };
  EXPECT_THAT(complaints("price + 1 > 2"),
              testing::ElementsAre(HasSubstr("arg3 is a floating-point number")));
  EXPECT_THAT(complaints("arg10 + 1 > 2"), testing::ElementsAre(HasSubstr("more than 8 bytes")));
  EXPECT_THAT(complaints("arg40 + 1 > 2"),
              testing::ElementsAre(HasSubstr("the probe has no argument arg40")));
  EXPECT_THAT(complaints("nope + 1 > 2"),
              testing::ElementsAre(HasSubstr("the probe has no argument nope")));
  EXPECT_THAT(complaints("id + colour + paid > 2"), testing::IsEmpty());
}

}  // namespace
}  // namespace vitrine::query
