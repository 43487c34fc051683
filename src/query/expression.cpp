#include "query/expression.hpp"

#include <fmt/format.h>

#include <array>

#include "base/limits.hpp"
#include "query/lexer.hpp"
#include "query/parse_subject.hpp"

namespace vitrine::query {
namespace {

struct Operator {
  std::string_view symbol;
  Comparison comparison;
};
constexpr std::array<Operator, 8> operators{{{"==", Comparison::eq},
                                             {"!=", Comparison::ne},
                                             {"<", Comparison::lt},
                                             {"<=", Comparison::le},
                                             {">", Comparison::gt},
                                             {">=", Comparison::ge},
                                             {"~", Comparison::like},
                                             {"!~", Comparison::unlike}}};

/// Recursive descent, as deep as limits::query_nesting; what comes out is postfix.
class Parser {
 public:
  explicit Parser(Lexer lexer) : lexer_(std::move(lexer)) {}

  Result<std::vector<Step>> parse() {
    if (lexer_.peek().kind == Token::Kind::end)
      return lexer_.error("the condition is empty", R"(price > 2 and tenant == "acme")");
    TRY(either());
    if (lexer_.peek().kind == Token::Kind::end) return std::move(steps_);
    return unexpected_end_of_comparison();
  }

 private:
  using Done = Result<void>;

  Done either() {
    TRY(both());
    while (lexer_.peek().is("||") || lexer_.peek().is_word("or"))
      TRY(connective(Step::Kind::either, &Parser::both));
    return {};
  }

  Done both() {
    TRY(negation());
    while (lexer_.peek().is("&&") || lexer_.peek().is_word("and"))
      TRY(connective(Step::Kind::both, &Parser::negation));
    return {};
  }

  Done connective(Step::Kind kind, Done (Parser::*operand)()) {
    const auto token = TRY(lexer_.take());
    TRY((this->*operand)());
    return add({.kind = kind, .comparison = {}, .left = {}, .right = {}, .at = token.at, .end = 0});
  }

  Done negation() {
    if (depth_ == limits::query_nesting)
      return lexer_.error("nested too deeply",
                          fmt::format("at most {} levels", limits::query_nesting));
    ++depth_;
    auto done = negation_within();
    --depth_;
    return done;
  }

  Done negation_within() {
    if (lexer_.peek().is("!") || lexer_.peek().is_word("not"))
      return connective(Step::Kind::negate, &Parser::negation);
    if (!lexer_.peek().is("(")) return comparison();
    const auto open = TRY(lexer_.take());
    TRY(either());
    if (!lexer_.peek().is(")")) {
      if (lexer_.peek().kind == Token::Kind::end)
        return syntax_error(lexer_.text(), open.at, "missing closing parenthesis",
                            "close it with )");
      return unexpected_end_of_comparison();
    }
    TRY(lexer_.take());
    return {};
  }

  Done comparison() {
    Step step;
    step.at = lexer_.peek().at;
    step.left = TRY(term("a condition"));
    const auto comparison = TRY(comparison_ahead());
    if (!comparison) {
      if (std::holds_alternative<Literal>(step.left) && !is_truth_)
        return lexer_.error(fmt::format("missing comparison before {}", lexer_.ahead()),
                            "a comparison: == != < <= > >= ~ !~");
      return add(std::move(step));
    }
    step.kind = Step::Kind::compare;
    step.comparison = *comparison;
    step.right = TRY(term("the right operand"));
    return add(std::move(step));
  }

  /// Takes the comparison ahead, if there is one.
  Result<std::optional<Comparison>> comparison_ahead() {
    const Token& token = lexer_.peek();
    if (token.is("=")) return lexer_.error("unknown operator `=`", "equality is ==");
    if (token.is("=~"))
      return lexer_.error("unknown operator `=~`", R"(wildcards are matched by ~: name ~ "a*")");
    for (const Operator& known : operators) {
      if (!token.is(known.symbol)) continue;
      TRY(lexer_.take());
      return known.comparison;
    }
    return std::nullopt;
  }

  Result<Term> term(std::string_view role) {
    const Token& ahead = lexer_.peek();
    is_truth_ = ahead.is_word("true") || ahead.is_word("false");
    if (is_truth_) {
      auto word = TRY(lexer_.take());
      return Literal(Number(std::int64_t{word.text == "true"}));
    }
    if (ahead.kind == Token::Kind::number || ahead.kind == Token::Kind::text) {
      auto literal = TRY(lexer_.take());
      if (literal.kind == Token::Kind::number) return Literal(literal.number);
      return Literal(std::move(literal.text));
    }
    if (ahead.kind != Token::Kind::word)
      return lexer_.error(fmt::format("{} is missing before {}", role, lexer_.ahead()),
                          R"(an argument, a label, a number or "text")");
    auto written = TRY(take_subject(lexer_));
    return std::move(written.subject);
  }

  Done add(Step step) {
    if (steps_.size() == limits::query_steps)
      return lexer_.error("the condition has too many parts",
                          fmt::format("at most {}", limits::query_steps));
    step.end = lexer_.last_end();
    steps_.push_back(std::move(step));
    return {};
  }

  tl::unexpected<Error> unexpected_end_of_comparison() const {
    return lexer_.error(fmt::format("unexpected {}", lexer_.ahead()),
                        "connect conditions with `and` or `or`");
  }

  Lexer lexer_;
  std::vector<Step> steps_;
  std::size_t depth_ = 0;
  bool is_truth_ = false;  ///< the last term was true or false
};

}  // namespace

Result<Expression> Expression::parse(std::string_view text) {
  Expression expression;
  expression.text_ = text;
  auto lexer = TRY(Lexer::open(expression.text_));
  expression.steps_ = TRY(Parser(std::move(lexer)).parse());
  return expression;
}

}  // namespace vitrine::query
