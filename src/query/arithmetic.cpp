// Arithmetic in conditions and lists: operators of C, with their precedence, on integer arguments.
// What it has of constants alone is a constant.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/limits.hpp"
#include "query/calculation.h"
#include "query/show.hpp"

namespace vitrine::query {
namespace {

struct BinaryOperator {
  std::string_view symbol;
  vitrine_calculation kind;
  int precedence;  ///< the higher binds tighter
};
constexpr std::array<BinaryOperator, 10> binary_operators{{
    {"|", VITRINE_CALCULATE_OR, 1},
    {"^", VITRINE_CALCULATE_XOR, 2},
    {"&", VITRINE_CALCULATE_AND, 3},
    {"<<", VITRINE_CALCULATE_SHIFT_LEFT, 4},
    {">>", VITRINE_CALCULATE_SHIFT_RIGHT, 4},
    {"+", VITRINE_CALCULATE_ADD, 5},
    {"-", VITRINE_CALCULATE_SUBTRACT, 5},
    {"*", VITRINE_CALCULATE_MULTIPLY, 6},
    {"/", VITRINE_CALCULATE_DIVIDE, 6},
    {"%", VITRINE_CALCULATE_REMAINDER, 6},
}};
constexpr int loosest = 1;

struct IntegerType {
  std::string_view name;
  std::uint8_t size;
  bool is_signed;
};
constexpr std::array<IntegerType, 8> integer_types{{{"int8", 1, true},
                                                    {"int16", 2, true},
                                                    {"int32", 4, true},
                                                    {"int64", 8, true},
                                                    {"uint8", 1, false},
                                                    {"uint16", 2, false},
                                                    {"uint32", 4, false},
                                                    {"uint64", 8, false}}};
constexpr std::string_view pointer_example = "*(int32*)arg2, *(uint64*)(arg2 + 8)";

const IntegerType* integer_type(std::string_view name) {
  if (name.ends_with("_t")) name.remove_suffix(2);
  const auto found = std::find_if(integer_types.begin(), integer_types.end(),
                                  [&](const IntegerType& type) { return type.name == name; });
  return found == integer_types.end() ? nullptr : &*found;
}

/// The numbers that are on the stack at once.
std::size_t depth_of(const std::vector<WrittenStep>& steps) {
  std::size_t depth = 0, most = 0;
  for (const WrittenStep& step : steps) {
    if (step.kind == VITRINE_CALCULATE_PUSH)
      most = std::max(most, ++depth);
    else if (step.kind >= VITRINE_CALCULATE_ADD)
      --depth;
  }
  return most;
}

/// Precedence climbing. What has no operator stays what it was: a subject, or a literal.
class ArithmeticParser {
 public:
  explicit ArithmeticParser(Lexer& lexer) : lexer_(lexer) {}

  Result<Operand> parse() { return binary(loosest); }

 private:
  Result<Operand> binary(int least) {
    const std::size_t from = lexer_.peek().at;
    auto left = TRY(unary());
    while (const BinaryOperator* known = operator_ahead(least)) {
      TRY(lexer_.take());
      const std::size_t right_from = lexer_.peek().at;
      auto right = TRY(binary(known->precedence + 1));
      left = TRY(join(known->kind, std::move(left), from, std::move(right), right_from));
    }
    return left;
  }

  const BinaryOperator* operator_ahead(int least) const {
    const auto found = std::find_if(
        binary_operators.begin(), binary_operators.end(), [&](const BinaryOperator& known) {
          return lexer_.peek().is(known.symbol) && known.precedence >= least;
        });
    return found == binary_operators.end() ? nullptr : &*found;
  }

  Result<Operand> unary() {
    if (lexer_.nesting == limits::query_nesting)
      return lexer_.error("nested too deeply",
                          fmt::format("at most {} levels", limits::query_nesting));
    ++lexer_.nesting;
    auto operand = unary_within();
    --lexer_.nesting;
    return operand;
  }

  Result<Operand> unary_within() {
    const Token& ahead = lexer_.peek();
    if (ahead.is("*")) return dereference();
    const bool negate = ahead.is("-");
    if (!negate && !ahead.is("~")) return primary();
    TRY(lexer_.take());
    const std::size_t from = lexer_.peek().at;
    auto operand = TRY(unary());
    return apply(negate ? VITRINE_CALCULATE_NEGATE : VITRINE_CALCULATE_INVERT, std::move(operand),
                 from);
  }

  Result<Operand> primary() {
    const Token& ahead = lexer_.peek();
    if (ahead.kind == Token::Kind::number || ahead.kind == Token::Kind::text) {
      auto literal = TRY(lexer_.take());
      if (literal.kind == Token::Kind::number) return Literal(literal.number);
      return Literal(std::move(literal.text));
    }
    if (!ahead.is("(")) {
      auto written = TRY(take_subject(lexer_));
      return written;
    }
    const auto open = TRY(lexer_.take());
    auto within = TRY(binary(loosest));
    if (!lexer_.peek().is(")")) {
      if (lexer_.peek().kind == Token::Kind::end)
        return syntax_error(lexer_.text(), open.at, "missing closing parenthesis",
                            "close it with )");
      return lexer_.error(fmt::format("expected `)`, not {}", lexer_.ahead()),
                          "an operator: + - * / % & | ^ << >>");
    }
    TRY(lexer_.take());
    return within;
  }

  /// `*(int32*)ADDRESS`
  Result<Operand> dereference() {
    TRY(lexer_.take());
    const auto missing = [&] {
      return lexer_.error("the type of what a pointer points to is missing", pointer_example);
    };
    auto open = TRY(lexer_.skip("("));
    if (!open) return missing();
    const IntegerType* type =
        lexer_.peek().kind == Token::Kind::word ? integer_type(lexer_.peek().text) : nullptr;
    if (type == nullptr)
      return lexer_.error(fmt::format("{} is not a type of integers", lexer_.ahead()),
                          "int8, int16, int32, int64, uint8, uint16, uint32, uint64");
    TRY(lexer_.take());
    auto star = TRY(lexer_.skip("*"));
    if (!star) return missing();
    auto close = TRY(lexer_.skip(")"));
    if (!close) return missing();
    const std::size_t from = lexer_.peek().at;
    auto address = TRY(unary());
    auto steps = TRY(steps_of(std::move(address), from));
    WrittenStep load;
    load.kind = VITRINE_CALCULATE_LOAD;
    load.size = type->size;
    load.is_signed = type->is_signed;
    steps.push_back(std::move(load));
    return calculated(std::move(steps), from);
  }

  /// An operand as steps that leave one number.
  Result<std::vector<WrittenStep>> steps_of(Operand operand, std::size_t from) const {
    constexpr std::string_view next = "arg0, an argument's name, 17, *(int32*)arg2";
    WrittenStep push;
    if (const auto* literal = std::get_if<Literal>(&operand)) {
      const auto* number = std::get_if<Number>(literal);
      if (number == nullptr || std::holds_alternative<double>(*number))
        return syntax_error(lexer_.text(), from, "arithmetic takes integers", next);
      push.is_signed = std::holds_alternative<std::int64_t>(*number);
      push.constant = push.is_signed ? static_cast<std::uint64_t>(std::get<std::int64_t>(*number))
                                     : std::get<std::uint64_t>(*number);
      return std::vector<WrittenStep>{std::move(push)};
    }
    auto& [subject, format] = std::get<WrittenSubject>(operand);
    using Kind = Subject::Kind;
    if (subject.form != Form::natural || format != Format::plain)
      return syntax_error(lexer_.text(), from, "arithmetic takes integers, not functions of them",
                          "put the function around all of it: hex(arg0 & 0xff)");
    if (subject.kind == Kind::calculated) return std::move(subject.calculation);
    if (subject.kind == Kind::argument)
      push.index = subject.index;
    else if (subject.kind == Kind::word || subject.kind == Kind::named_argument)
      push.name = subject.name;
    else
      return syntax_error(lexer_.text(), from, "arithmetic takes integer arguments", next);
    return std::vector<WrittenStep>{std::move(push)};
  }

  Result<Operand> join(vitrine_calculation kind, Operand left, std::size_t left_from, Operand right,
                       std::size_t right_from) {
    auto steps = TRY(steps_of(std::move(left), left_from));
    auto more = TRY(steps_of(std::move(right), right_from));
    if (is_constant(steps) && is_constant(more))
      return folded(kind, steps.front(), more.front(), right_from);
    for (WrittenStep& step : more) steps.push_back(std::move(step));
    WrittenStep last;
    last.kind = kind;
    steps.push_back(std::move(last));
    return calculated(std::move(steps), left_from);
  }

  Result<Operand> apply(vitrine_calculation kind, Operand operand, std::size_t from) {
    auto steps = TRY(steps_of(std::move(operand), from));
    if (is_constant(steps)) return folded(kind, steps.front(), steps.front(), from);
    WrittenStep last;
    last.kind = kind;
    steps.push_back(std::move(last));
    return calculated(std::move(steps), from);
  }

  static bool is_constant(const std::vector<WrittenStep>& steps) {
    const WrittenStep& only = steps.front();
    return steps.size() == 1 && !only.index && only.name.empty();
  }

  Result<Operand> folded(vitrine_calculation kind, const WrittenStep& left,
                         const WrittenStep& right, std::size_t right_from) const {
    const bool is_shift =
        kind == VITRINE_CALCULATE_SHIFT_LEFT || kind == VITRINE_CALCULATE_SHIFT_RIGHT;
    const bool is_signed = left.is_signed && (is_shift || right.is_signed);
    __u64 result = 0;
    if (vitrine_calculate(kind, is_signed ? 1 : 0, left.constant, right.constant, &result) != 0)
      return syntax_error(lexer_.text(), right_from, "division by 0", "any other number");
    return Literal(is_signed ? Number(static_cast<std::int64_t>(result))
                             : Number(std::uint64_t{result}));
  }

  Result<Operand> calculated(std::vector<WrittenStep> steps, std::size_t from) const {
    constexpr std::size_t most = VITRINE_CALCULATION_STEPS - 1;  // and the one that stores it
    if (steps.size() > most || depth_of(steps) > VITRINE_CALCULATION_DEPTH)
      return syntax_error(
          lexer_.text(), from, "too much arithmetic in one operand",
          fmt::format("at most {} numbers and operators, and {} numbers waiting for an operator",
                      most, VITRINE_CALCULATION_DEPTH));
    WrittenSubject written;
    written.subject.kind = Subject::Kind::calculated;
    written.subject.calculation = std::move(steps);
    written.subject.at = from;
    return written;
  }

  Lexer& lexer_;
};

}  // namespace

Result<Operand> take_operand(Lexer& lexer) {
  return ArithmeticParser(lexer).parse();
}

}  // namespace vitrine::query
