// Conditions at a site, in user space.

#include "query/expression.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/limits.hpp"
#include "base/text.hpp"
#include "query/lexer.hpp"
#include "query/show.hpp"

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
    if (!lexer_.peek().is("(") || !is_condition_ahead()) return comparison();
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

  /// Whether the parentheses ahead are around a condition, not around a number.
  bool is_condition_ahead() const {
    Lexer ahead = lexer_;
    std::size_t open = 0;
    bool behind_operand = false;
    for (;;) {
      const auto token = ahead.take();
      if (!token || token->kind == Token::Kind::end) return true;  // the caller reports the error
      if (token->kind == Token::Kind::word &&
          (token->is_word("and") || token->is_word("or") || token->is_word("not") ||
           token->is_word("true") || token->is_word("false")))
        return true;
      if (token->kind != Token::Kind::symbol) {
        behind_operand = true;
        continue;
      }
      constexpr std::array<std::string_view, 12> of_conditions{
          "==", "!=", "<", "<=", ">", ">=", "!~", "=~", "&&", "||", "!", "="};
      if (std::find(of_conditions.begin(), of_conditions.end(), token->text) !=
              of_conditions.end() ||
          (token->is("~") && behind_operand))
        return true;
      if (token->is("(")) ++open;
      if (token->is(")") && --open == 0) return false;
      behind_operand = token->is(")") || token->is("]");
    }
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
    const bool begins_number = ahead.is("(") || ahead.is("-") || ahead.is("*") || ahead.is("~");
    if (ahead.kind == Token::Kind::end || (ahead.kind == Token::Kind::symbol && !begins_number))
      return lexer_.error(fmt::format("{} is missing before {}", role, lexer_.ahead()),
                          R"(an argument, a label, a number or "text")");
    auto operand = TRY(take_operand(lexer_));
    if (auto* literal = std::get_if<Literal>(&operand)) return std::move(*literal);
    Subject& subject = std::get<WrittenSubject>(operand).subject;
    if (subject.kind == Subject::Kind::stack)
      return syntax_error(lexer_.text(), subject.at, "a condition cannot ask for the stack",
                          "group by it (--by stack); label.stack is the label of that name");
    return std::move(subject);
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

namespace {

using probe::ValueKind;

// ---- Binding ----

/// What the names of a step mean at one site.
class Binder {
 public:
  Binder(const Arguments& site, std::vector<Capture>& captures,
         std::vector<std::string>& complaints)
      : site_(site), captures_(captures), complaints_(complaints) {}

  Condition::BoundStep bind(const Step& step, std::string_view text) {
    Condition::BoundStep bound;
    bound.kind = step.kind;
    bound.comparison = step.comparison;
    bound.text = text;
    Term left = step.left;
    Term right = step.right;
    if (step.kind == Step::Kind::compare) {
      take_word_as_text(left, right);
      fit(left, right, step.comparison, bound.text);
      fit(right, left, step.comparison, bound.text);
      bound.right = bind(right, bound.text);
    }
    if (step.kind == Step::Kind::compare || step.kind == Step::Kind::present)
      bound.left = bind(left, bound.text);
    return bound;
  }

 private:
  /// `tenant == acme`: a bare word on the right that is no argument here is text. So are the names
  /// of enumerators, which go first.
  void take_word_as_text(const Term& left, Term& right) const {
    const auto* subject = std::get_if<Subject>(&left);
    const auto* word = std::get_if<Subject>(&right);
    if (subject == nullptr || word == nullptr || word->kind != Subject::Kind::word ||
        word->form != Form::natural)
      return;
    if (argument_named(site_, word->name) && enumerator(*subject, word->name) == nullptr) return;
    right = Literal(std::string(word->name));
  }

  const probe::ArgumentType* type(const Subject& subject) const {
    const auto argument = argument_of(subject, site_);
    return argument ? type_of(site_, *argument) : nullptr;
  }

  const probe::Enumerator* enumerator(const Subject& subject, std::string_view name) const {
    const probe::ArgumentType* known = type(subject);
    if (known == nullptr || known->kind != ValueKind::enumeration) return nullptr;
    const auto found = std::find_if(known->enumerators.begin(), known->enumerators.end(),
                                    [&](const probe::Enumerator& e) { return e.name == name; });
    return found == known->enumerators.end() ? nullptr : &*found;
  }

  /// The number that an argument has where it is this one: of an unsigned type it may be 2^63 or more.
  Number number_of(const probe::Enumerator& known, const Subject& subject) const {
    const std::size_t argument = argument_of(subject, site_).value_or(0);
    const bool is_unsigned =
        argument < site_.operands.size() && (site_.operands[argument].flags & VITRINE_SIGNED) == 0;
    if (is_unsigned) return narrowest(static_cast<std::uint64_t>(known.value));
    return known.value;
  }

  /// Makes an argument and the text that it is compared with fit each other.
  void fit(Term& term, Term& other, Comparison comparison, const std::string& step) {
    auto* subject = std::get_if<Subject>(&term);
    auto* literal = std::get_if<Literal>(&other);
    if (subject == nullptr || literal == nullptr || !argument_of(*subject, site_)) return;
    auto* text = std::get_if<std::string>(literal);
    if (text == nullptr || subject->form != Form::natural) return;
    const probe::ArgumentType* known = type(*subject);
    const ValueKind kind = known == nullptr ? ValueKind::pointer : known->kind;
    const bool is_glob = comparison == Comparison::like || comparison == Comparison::unlike;
    switch (kind) {
      case ValueKind::pointer:
        subject->form = Form::text;
        return;
      case ValueKind::enumeration:
        if (is_glob) return;
        if (const auto* known_name = enumerator(*subject, *text)) {
          other = Literal(number_of(*known_name, *subject));
          return;
        }
        break;
      case ValueKind::integer:
      case ValueKind::floating:
      case ValueKind::boolean:
        break;
      default:
        return;  // text and bytes are what they are
    }
    if (const auto number = parse_number(*text); number && !is_glob) {
      other = Literal(*number);
      return;
    }
    complain_of_text(*known, *text, step);
  }

  void complain_of_text(const probe::ArgumentType& known, const std::string& text,
                        const std::string& step) {
    if (known.kind != ValueKind::enumeration) {
      complaints_.push_back(fmt::format("`{}` is never true: the argument is a number ({})", step,
                                        known.type.empty() ? "not text" : known.type));
      return;
    }
    constexpr std::size_t most = 8;
    std::string names;
    for (std::size_t i = 0; i < std::min(most, known.enumerators.size()); ++i)
      names += (i == 0 ? "" : ", ") + known.enumerators[i].name;
    if (known.enumerators.size() > most) names += ", …";
    complaints_.push_back(
        fmt::format("`{}` is never true: {} is not one of its names ({})", step, text, names));
  }

  Condition::BoundTerm bind(const Term& term, const std::string& step) {
    if (const auto* literal = std::get_if<Literal>(&term)) return *literal;
    const auto& subject = std::get<Subject>(term);
    Bound bound = query::bind(subject, site_, captures_);
    if (bound.kind == Bound::Kind::nothing) complain_of_absence(subject, step);
    if (bound.kind == Bound::Kind::capture && !captures_[bound.slot].problem.empty())
      complaints_.push_back(
          fmt::format("`{}` is never true: {}", step, captures_[bound.slot].problem));
    return bound;
  }

  void complain_of_absence(const Subject& subject, const std::string& step) {
    if (const auto missing = missing_operand(subject, site_)) {
      complaints_.push_back(
          fmt::format("`{}` is never true: the probe has no argument {}", step, *missing));
      return;
    }
    if (subject.kind == Subject::Kind::argument) {
      complaints_.push_back(
          fmt::format("`{}` is never true: the probe has {} argument{}, and arg0 is the first",
                      step, site_.operands.size(), site_.operands.size() == 1 ? "" : "s"));
      return;
    }
    std::string names;
    for (const probe::ArgumentType& known : site_.types)
      if (!known.name.empty()) names += (names.empty() ? "" : ", ") + known.name;
    complaints_.push_back(fmt::format("`{}` is never true: no argument has the name {} ({})", step,
                                      subject.name,
                                      names.empty() ? "their names are unknown" : names));
  }

  const Arguments& site_;
  std::vector<Capture>& captures_;
  std::vector<std::string>& complaints_;
};

// ---- Asking ----

/// A term at one fire. Points into the fire and the condition.
struct Seen {
  std::optional<Number> number;
  std::optional<std::string_view> text;
  bool cut = false;  ///< the text goes on
};

struct ValueToSeen {
  Seen operator()(std::int64_t number) const { return {.number = number, .text = {}}; }
  Seen operator()(std::uint64_t number) const { return {.number = number, .text = {}}; }
  Seen operator()(double number) const { return {.number = number, .text = {}}; }
  Seen operator()(bool truth) const { return {.number = std::int64_t{truth}, .text = {}}; }
  Seen operator()(const probe::PointerValue& pointer) const {
    return {.number = pointer.address, .text = {}};
  }
  Seen operator()(const probe::EnumeratorValue& enumerator) const {
    Seen seen{.number = enumerator.with_number([](auto number) { return Number(number); }),
              .text = {}};
    if (!enumerator.name.empty()) seen.text = enumerator.name;
    return seen;
  }
  Seen operator()(const probe::StringValue& string) const {
    return {.number = {}, .text = string.text, .cut = string.truncated};
  }
  Seen operator()(const probe::BytesValue& bytes) const {
    const auto* first = reinterpret_cast<const char*>(bytes.bytes.data());
    return {
        .number = {}, .text = std::string_view(first, bytes.bytes.size()), .cut = bytes.truncated};
  }
  Seen operator()(const probe::ListValue&) const { return {}; }
  Seen operator()(const probe::ValueError&) const { return {}; }
};

Seen seen_text(std::string_view text) {
  return {.number = {}, .text = text};
}
Seen seen_number(std::int64_t number) {
  return {.number = number, .text = {}};
}
Seen seen_id(std::string_view hex) {
  return hex.empty() ? Seen{} : seen_text(hex);
}

Seen see(const Bound& subject, const Fire& fire) {
  switch (subject.kind) {
    case Bound::Kind::nothing:
      return {};
    case Bound::Kind::capture:
      if (subject.slot >= fire.values.size()) return {};
      return std::visit(ValueToSeen{}, fire.values[subject.slot]);
    case Bound::Kind::label: {
      const auto value = fire.labels == nullptr ? std::nullopt : fire.labels->value(subject.key);
      return value ? seen_text(*value) : Seen{};
    }
    case Bound::Kind::pid:
      return seen_number(fire.pid);
    case Bound::Kind::tid:
      return seen_number(fire.tid);
    case Bound::Kind::cpu:
      return seen_number(fire.cpu);
    case Bound::Kind::comm:
      return seen_text(fire.comm);
    case Bound::Kind::probe:
      return seen_text(fire.probe);
    case Bound::Kind::module:
      return seen_id(fire.module);
    case Bound::Kind::site:
      return {.number = fire.site, .text = {}};
    case Bound::Kind::function:
      return seen_id(fire.function);
    case Bound::Kind::uid:
      return seen_number(fire.uid);
    case Bound::Kind::cgroup:
      return seen_id(fire.cgroup);
    case Bound::Kind::container:
      return seen_id(fire.container);
    case Bound::Kind::stack:  // refused by parse()
      return {};
    case Bound::Kind::trace_id:
      return seen_id(fire.trace_id);
    case Bound::Kind::span_id:
      return seen_id(fire.span_id);
  }
  return {};
}

Seen see(const Condition::BoundTerm& term, const Fire& fire) {
  if (const auto* subject = std::get_if<Bound>(&term)) return see(*subject, fire);
  const auto& literal = std::get<Literal>(term);
  if (const auto* number = std::get_if<Number>(&literal)) return {.number = *number, .text = {}};
  return seen_text(std::get<std::string>(literal));
}

/// As bytes; of two that agree as far as they are known, the one that goes on is the greater.
std::partial_ordering order_of_texts(const Seen& left, const Seen& right) {
  const int order = left.text->compare(*right.text);
  if (order != 0) return order < 0 ? std::partial_ordering::less : std::partial_ordering::greater;
  if (left.cut != right.cut)
    return right.cut ? std::partial_ordering::less : std::partial_ordering::greater;
  return left.cut ? std::partial_ordering::unordered : std::partial_ordering::equivalent;
}

bool compares(const Seen& left, Comparison comparison, const Seen& right) {
  if (comparison == Comparison::like || comparison == Comparison::unlike) {
    if (!left.text || !right.text) return false;
    return glob_matches(*right.text, *left.text) == (comparison == Comparison::like);
  }
  if (!left.number && left.text && !right.number && right.text)
    return holds(comparison, order_of_texts(left, right));
  // Text beside a number is the number that it reads as, if it does.
  const auto number = [](const Seen& seen) {
    if (seen.number || !seen.text || seen.cut) return seen.number;
    return parse_number(*seen.text);
  };
  const auto left_number = number(left);
  const auto right_number = number(right);
  if (!left_number || !right_number) return false;
  return holds(comparison, compare(*left_number, *right_number));
}

bool present(const Seen& seen) {
  if (seen.number) return compare(*seen.number, std::int64_t{0}) != 0;
  return seen.text.has_value();
}

}  // namespace

Condition bind(const Expression& expression, const Arguments& site,
               std::vector<Capture>& captures) {
  Condition condition;
  Binder binder(site, captures, condition.complaints_);
  const std::string_view text = expression.text();
  for (const Step& step : expression.steps())
    condition.steps_.push_back(
        binder.bind(step, text.substr(step.at, std::max(step.end, step.at) - step.at)));
  return condition;
}

bool holds(Comparison comparison, std::partial_ordering order) {
  switch (comparison) {
    case Comparison::eq:
      return order == 0;
    case Comparison::ne:
      return order != 0;
    case Comparison::lt:
      return order < 0;
    case Comparison::le:
      return order <= 0;
    case Comparison::gt:
      return order > 0;
    case Comparison::ge:
      return order >= 0;
    default:
      return false;
  }
}

bool Condition::holds(const Fire& fire) const {
  std::array<bool, limits::query_steps> stack{};
  std::size_t depth = 0;  // the parser pushes before it pops, and at most query_steps
  for (const BoundStep& step : steps_) {
    switch (step.kind) {
      case Step::Kind::compare:
        stack[depth++] = compares(see(step.left, fire), step.comparison, see(step.right, fire));
        break;
      case Step::Kind::present:
        stack[depth++] = present(see(step.left, fire));
        break;
      case Step::Kind::both:
        --depth;
        stack[depth - 1] = stack[depth - 1] && stack[depth];
        break;
      case Step::Kind::either:
        --depth;
        stack[depth - 1] = stack[depth - 1] || stack[depth];
        break;
      case Step::Kind::negate:
        stack[depth - 1] = !stack[depth - 1];
        break;
    }
  }
  return depth == 0 || stack[depth - 1];
}

bool Condition::asks_labels() const {
  const auto is_label = [](const BoundTerm& term) {
    const auto* subject = std::get_if<Bound>(&term);
    return subject != nullptr &&
           (subject->kind == Bound::Kind::label || subject->kind == Bound::Kind::trace_id ||
            subject->kind == Bound::Kind::span_id);
  };
  return std::any_of(steps_.begin(), steps_.end(), [&](const BoundStep& step) {
    return is_label(step.left) || is_label(step.right);
  });
}

std::vector<Selected> Condition::selected() const {
  std::vector<Selected> selected;
  for (const BoundStep& step : steps_)
    for (const BoundTerm* term : {&step.left, &step.right})
      if (const auto* subject = std::get_if<Bound>(term)) select(*subject, selected);
  return selected;
}

}  // namespace vitrine::query
