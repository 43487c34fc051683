#include "query/lexer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string>
#include <utility>

#include "base/limits.hpp"
#include "base/text.hpp"

namespace vitrine::query {
namespace {

// Holds every int64_t, uint64_t and double exactly, so that mixed comparisons are exact too.
static_assert(std::numeric_limits<long double>::digits >= 64);

long double wide(const Number& number) {
  return std::visit([](auto value) { return static_cast<long double>(value); }, number);
}

template <class T>
std::optional<T> whole(std::string_view digits, int base) {
  T value{};
  const auto end = digits.data() + digits.size();
  const auto [stopped, error] = std::from_chars(digits.data(), end, value, base);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

std::optional<double> fraction(const std::string& digits) {
  double value = 0;
  const auto end = digits.data() + digits.size();
  const auto [stopped, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

/// `text` without the underscores between its digits; nothing when one is elsewhere.
std::optional<std::string> joined(std::string_view text) {
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits += text[i];
      continue;
    }
    const bool between = i > 0 && i + 1 < text.size() && text[i - 1] != '_' && text[i + 1] != '_';
    if (!between) return std::nullopt;
  }
  return digits;
}

}  // namespace

std::partial_ordering compare(const Number& left, const Number& right) {
  return wide(left) <=> wide(right);
}

Number narrowest(std::uint64_t number) {
  if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return number;
  return static_cast<std::int64_t>(number);
}

double to_double(const Number& number) {
  return std::visit([](auto value) { return static_cast<double>(value); }, number);
}

std::optional<Number> parse_number(std::string_view text) {
  constexpr std::size_t longest = 64;  // digits of a number that a user writes
  if (text.size() > longest) return std::nullopt;
  const auto digits = joined(text);
  if (!digits) return std::nullopt;
  const bool negative = digits->starts_with('-');
  const std::string_view magnitude = std::string_view(*digits).substr(negative ? 1 : 0);
  if (magnitude.empty() || !is_digit(magnitude[0])) return std::nullopt;
  if (magnitude.starts_with("0x") || magnitude.starts_with("0X")) {
    const auto value = whole<std::uint64_t>(magnitude.substr(2), 16);
    if (!value) return std::nullopt;
    if (!negative) return narrowest(*value);
    if (*value > std::uint64_t{1} << 63) return std::nullopt;
    return Number(static_cast<std::int64_t>(0 - *value));
  }
  if (const auto value = whole<std::int64_t>(*digits, 10)) return Number(*value);
  if (const auto value = whole<std::uint64_t>(*digits, 10)) return Number(*value);
  if (const auto value = fraction(*digits)) return Number(*value);
  return std::nullopt;
}

std::optional<Number> number_of(const probe::Value& value) {
  struct Visitor {
    std::optional<Number> operator()(std::int64_t number) const { return number; }
    std::optional<Number> operator()(std::uint64_t number) const { return number; }
    std::optional<Number> operator()(double number) const { return number; }
    std::optional<Number> operator()(bool truth) const { return std::int64_t{truth}; }
    std::optional<Number> operator()(const probe::PointerValue& pointer) const {
      return pointer.address;
    }
    std::optional<Number> operator()(const probe::EnumeratorValue& enumerator) const {
      return enumerator.with_number([](auto number) { return Number(number); });
    }
    std::optional<Number> operator()(const probe::StringValue& string) const {
      return string.truncated ? std::nullopt : parse_number(string.text);
    }
    std::optional<Number> operator()(const probe::BytesValue&) const { return std::nullopt; }
    std::optional<Number> operator()(const probe::ListValue&) const { return std::nullopt; }
    std::optional<Number> operator()(const probe::ValueError&) const { return std::nullopt; }
  };
  return std::visit(Visitor{}, value);
}

namespace {

bool in_word(char c) {
  return is_letter(c) || is_digit(c) || c == '.';
}
bool continues_code_point(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

/// Columns of UTF-8 text.
std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !continues_code_point(c); }));
}

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

tl::unexpected<Error> syntax_error(std::string_view text, std::size_t at, std::string message,
                                   std::string_view next) {
  constexpr std::size_t before = 40, after = 30;  // what fits a line beside the caret
  at = std::min(at, text.size());
  std::size_t from = at > before ? at - before : 0;
  while (from > 0 && from < at && continues_code_point(text[from])) ++from;
  std::size_t to = std::min(text.size(), at + after);
  while (to < text.size() && continues_code_point(text[to])) ++to;
  std::string excerpt(text.substr(from, to - from));
  for (char& c : excerpt)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  std::size_t column = columns(std::string_view(excerpt).substr(0, at - from));
  if (from > 0) {
    excerpt = "… " + excerpt;
    column += 2;
  }
  if (to < text.size()) excerpt += " …";
  return fail(ErrorCode::usage, std::move(message),
              fmt::format("{}\n{}^ {}", excerpt, std::string(column, ' '), next));
}

Error as_sentences(Error error) {
  const std::size_t line = error.remedy.find('\n');
  if (line == error.remedy.npos) return error;
  const std::size_t caret = error.remedy.find_first_not_of(' ', line + 1);
  constexpr std::string_view mark = "^ ";
  if (caret == error.remedy.npos || error.remedy.compare(caret, mark.size(), mark) != 0)
    return error;
  error.message += fmt::format(" in `{}`", std::string_view(error.remedy).substr(0, line));
  error.remedy.erase(0, caret + mark.size());
  return error;
}

Result<Lexer> Lexer::open(std::string_view text) {
  if (text.size() > limits::query_bytes)
    return fail(ErrorCode::usage,
                fmt::format("{} bytes are too long for a condition or a list", text.size()),
                fmt::format("at most {} bytes", limits::query_bytes));
  Lexer lexer(text);
  lexer.token_ = TRY(lexer.scan(0));
  return lexer;
}

Result<Token> Lexer::take() {
  auto next = TRY(scan(token_.end));
  last_end_ = token_.end;
  return std::exchange(token_, std::move(next));
}

Result<bool> Lexer::skip(std::string_view symbol) {
  if (!token_.is(symbol)) return false;
  TRY(take());
  return true;
}

std::string Lexer::ahead() const {
  if (token_.kind == Token::Kind::end) return "the end";
  return fmt::format("`{}`", text_.substr(token_.at, token_.end - token_.at));
}

Result<Token> Lexer::scan(std::size_t from) const {
  while (from < text_.size() && (text_[from] == ' ' || text_[from] == '\t' || text_[from] == '\n'))
    ++from;
  Token token;
  token.at = token.end = from;
  if (from == text_.size()) return token;
  const char first = text_[from];
  if (first == '"' || first == '\'') return scan_text(from);
  const bool negative =
      first == '-' && from + 1 < text_.size() && is_digit(text_[from + 1]) && !is_behind_operand();
  if (is_digit(first) || negative) return scan_number(from);
  if (is_letter(first)) {
    while (token.end < text_.size() && in_word(text_[token.end])) ++token.end;
    token.kind = Token::Kind::word;
    token.text = text_.substr(from, token.end - from);
    if (token.text.ends_with('.') || token.text.find("..") != std::string::npos)
      return syntax_error(text_, from + std::min(token.text.find(".."), token.text.size() - 1),
                          fmt::format("`{}` is not a name", token.text),
                          R"(quote a key with such dots: label["..."])");
    return token;
  }
  return scan_symbol(from);
}

/// Whether what was taken last can stand to the left of an operator.
bool Lexer::is_behind_operand() const {
  switch (token_.kind) {
    case Token::Kind::number:
    case Token::Kind::text:
      return true;
    case Token::Kind::word:
      return !token_.is_word("and") && !token_.is_word("or") && !token_.is_word("not");
    default:
      return token_.is(")") || token_.is("]");
  }
}

/// Whether the character is used as in tea-pot or tea*, which are hardly meant as arithmetic.
bool Lexer::is_in_name(std::size_t at) const {
  if (token_.kind != Token::Kind::word || token_.end != at) return false;
  const char next = at + 1 < text_.size() ? text_[at + 1] : '\0';
  if (text_[at] != '*') return is_letter(next);
  return is_letter(next) || next == '\0' || next == ' ';
}

Result<Token> Lexer::scan_symbol(std::size_t from) const {
  static constexpr std::array<std::string_view, 28> symbols{
      "==", "!=", "<=", ">=", "&&", "||", "!~", "=~", "<<", ">>", "<", ">", "~", "!",
      "(",  ")",  "[",  "]",  ",",  "=",  "+",  "-",  "*",  "/",  "%", "&", "|", "^"};
  const char first = text_[from];
  const bool path = first == '/' && !is_behind_operand();
  if (path || first == ':' || first == '@' || ((first == '-' || first == '/') && is_in_name(from)))
    return syntax_error(text_, from, fmt::format("unexpected `{}` in a name", first),
                        R"(quote text: "my-value"; and keys: label["my-key"])");
  const auto symbol = std::find_if(symbols.begin(), symbols.end(), [&](std::string_view known) {
    return text_.substr(from).starts_with(known);
  });
  if (symbol == symbols.end() || (first == '*' && is_in_name(from)))
    return syntax_error(text_, from, "unexpected character", R"(quote text: "...")");
  Token token;
  token.kind = Token::Kind::symbol;
  token.text = *symbol;
  token.at = from;
  token.end = from + symbol->size();
  return token;
}

Result<Token> Lexer::scan_text(std::size_t from) const {
  const char quote = text_[from];
  Token token;
  token.kind = Token::Kind::text;
  token.at = from;
  for (std::size_t i = from + 1; i < text_.size(); ++i) {
    if (text_[i] == quote) {
      token.end = i + 1;
      return token;
    }
    if (text_[i] != '\\') {
      token.text += text_[i];
      continue;
    }
    const std::size_t escape = i++;
    const char c = i < text_.size() ? text_[i] : '\0';
    if (c == 'n') {
      token.text += '\n';
    } else if (c == 't') {
      token.text += '\t';
    } else if (c == '\\' || c == '"' || c == '\'') {
      token.text += c;
    } else if (c == 'x' && i + 2 < text_.size() && hex_digit(text_[i + 1]) >= 0 &&
               hex_digit(text_[i + 2]) >= 0) {
      token.text += static_cast<char>(hex_digit(text_[i + 1]) * 16 + hex_digit(text_[i + 2]));
      i += 2;
    } else {
      return syntax_error(text_, escape, "unknown escape",
                          R"(\n \t \\ \" \' \x41, or a backslash as \\)");
    }
  }
  return syntax_error(text_, from, "missing closing quote", fmt::format("close it with {}", quote));
}

Result<Token> Lexer::scan_number(std::size_t from) const {
  Token token;
  token.kind = Token::Kind::number;
  token.at = from;
  std::size_t end = from + 1;
  while (end < text_.size()) {
    const bool exponent_sign = (text_[end] == '-' || text_[end] == '+') &&
                               (text_[end - 1] == 'e' || text_[end - 1] == 'E') &&
                               text_.substr(from, 2) != "0x";
    if (!in_word(text_[end]) && !exponent_sign) break;
    ++end;
  }
  token.end = end;
  token.text = text_.substr(from, end - from);
  const auto number = parse_number(token.text);
  if (!number)
    return syntax_error(text_, from, fmt::format("`{}` is not a number of 64 bits", token.text),
                        R"(17, -3, 0x1f, 2.5, 1e9, 1_000_000; text in quotes: "4bf9")");
  token.number = *number;
  return token;
}

}  // namespace vitrine::query
