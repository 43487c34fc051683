#include "probe/expression.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/limits.hpp"

namespace vitrine::probe {
namespace {

struct RelocationName {
  std::string_view name;
  SymbolPart part;
};
constexpr RelocationName relocations[] = {
    {"GOTPCREL", SymbolPart::got_slot},    {"GOT", SymbolPart::got_slot_bias},
    {"GOTOFF", SymbolPart::got_bias},      {"TPOFF", SymbolPart::thread_offset},
    {"NTPOFF", SymbolPart::thread_offset},
};

/// Recursive descent. Every step that goes deeper is counted.
class Expression {
 public:
  explicit Expression(Cursor& cursor) : cursor_(cursor) {}

  Parsed<Sum> sum() {
    auto left = product();
    while (left) {
      cursor_.skip_blanks();
      const char sign = cursor_.peek();
      if (sign != '+' && sign != '-') break;
      cursor_.skip(1);
      auto right = TRY(product());
      left = add(*left, right, sign == '-');
    }
    return left;
  }

 private:
  static Parsed<Sum> add(Sum left, const Sum& right, bool negative) {
    if (right.symbol && (left.symbol || negative))
      return unsupported("a difference or sum of symbols: its value is not in the file");
    if (right.symbol) left.symbol = right.symbol;
    left.value += negative ? 0 - right.value : right.value;
    left.beyond_i64 = left.beyond_i64 || right.beyond_i64;
    return left;
  }

  Parsed<Sum> product() {
    auto left = unary();
    while (left) {
      cursor_.skip_blanks();
      const std::string_view rest = cursor_.rest();
      std::string_view sign = rest.substr(0, 1);
      if (rest.starts_with("<<") || rest.starts_with(">>")) sign = rest.substr(0, 2);
      if (sign.empty() || std::string_view("*/&|^<>").find(sign[0]) == std::string_view::npos ||
          sign == "<" || sign == ">")
        break;
      cursor_.skip(sign.size());
      auto right = TRY(unary());
      left = combine(*left, right, sign);
    }
    return left;
  }

  static Parsed<Sum> combine(const Sum& left, const Sum& right, std::string_view sign) {
    if (left.symbol || right.symbol)
      return unsupported("arithmetic with a symbol other than + and -");
    const std::uint64_t a = left.value, b = right.value;
    Sum sum;
    switch (sign[0]) {
      case '*':
        sum.value = a * b;
        break;
      case '/':
        if (b == 0) return syntax_error("a division by zero");
        sum.value = static_cast<std::uint64_t>(
            b == UINT64_MAX ? 0 - a
                            : static_cast<std::uint64_t>(static_cast<std::int64_t>(a) /
                                                         static_cast<std::int64_t>(b)));
        break;
      case '&':
        sum.value = a & b;
        break;
      case '|':
        sum.value = a | b;
        break;
      case '^':
        sum.value = a ^ b;
        break;
      case '<':
        sum.value = b < 64 ? a << b : 0;
        break;
      default:
        sum.value = b < 64 ? a >> b : 0;
        break;
    }
    return sum;
  }

  Parsed<Sum> unary() {
    if (++depth_ > limits::argument_depth)
      return syntax_error(
          fmt::format("it is nested more than {} levels deep", limits::argument_depth));
    cursor_.skip_blanks();
    auto result = [&]() -> Parsed<Sum> {
      const char sign = cursor_.peek();
      if (sign != '-' && sign != '~' && sign != '+') return primary();
      cursor_.skip(1);
      auto operand = unary();
      if (!operand || sign == '+') return operand;
      if (operand->symbol) return unsupported("a negated symbol");
      operand->value = sign == '-' ? 0 - operand->value : ~operand->value;
      operand->beyond_i64 = false;
      return operand;
    }();
    --depth_;
    return result;
  }

  Parsed<Sum> primary() {
    if (cursor_.take("(")) {
      auto inner = sum();
      if (inner && !cursor_.take(")")) return syntax_error("missing closing parenthesis");
      return inner;
    }
    Sum sum;
    if (Cursor::is_digit(cursor_.peek())) {
      const auto number = TRY(take_number(cursor_));
      sum.value = number;
      sum.beyond_i64 = number > INT64_MAX;
      return sum;
    }
    sum.symbol = TRY(take_symbol());
    return sum;
  }

  Parsed<SymbolUse> take_symbol() {
    SymbolUse use;
    if (cursor_.take("\"")) {
      const std::size_t end = cursor_.rest().find('"');
      if (end == std::string_view::npos) return syntax_error("missing closing quote");
      use.name = cursor_.rest().substr(0, end);
      cursor_.skip(end + 1);
    } else {
      use.name = cursor_.take_name();
    }
    if (use.name.empty())
      return cursor_.done() ? syntax_error("it ends where a number or a symbol was expected")
                            : syntax_error(fmt::format("{} is neither a number nor a symbol",
                                                       quoted(cursor_.rest())));
    if (use.name.size() > limits::name_bytes)
      return syntax_error(fmt::format("a symbol name of {} bytes", use.name.size()));
    if (!cursor_.take("@")) return use;
    for (const RelocationName& relocation : relocations)
      if (cursor_.take_word(relocation.name)) {
        use.part = relocation.part;
        return use;
      }
    return unsupported(
        fmt::format("@{} of the symbol {}", quoted(cursor_.rest()), quoted(use.name)));
  }

  Cursor& cursor_;
  std::size_t depth_ = 0;
};

}  // namespace

Parsed<Sum> take_expression(Cursor& cursor) {
  return Expression(cursor).sum();
}

Parsed<std::uint64_t> take_number(Cursor& cursor) {
  cursor.skip_blanks();
  std::string_view text = cursor.rest();
  int base = 10;
  std::size_t prefix = 0;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    prefix = 2;
  } else if (text.starts_with('0')) {
    base = 8;
  }
  std::uint64_t number = 0;
  const auto [end, error] =
      std::from_chars(text.data() + prefix, text.data() + text.size(), number, base);
  const auto size = static_cast<std::size_t>(end - text.data());
  if (error == std::errc::result_out_of_range)
    return syntax_error(fmt::format("{} does not fit into 64 bits", quoted(text.substr(0, size))));
  if (error != std::errc() || (size < text.size() && Cursor::is_name(text[size])))
    return syntax_error(fmt::format("{} is not a number", quoted(text)));
  cursor.skip(size);
  return number;
}

std::optional<double> take_real(Cursor& cursor) {
  cursor.skip_blanks();
  const std::string_view text = cursor.rest();
  const std::size_t digits = text.find_first_not_of("+-");
  if (digits > 1 || !Cursor::is_digit(text[digits])) return std::nullopt;
  const std::size_t end = std::min(text.find_first_not_of("0123456789", digits), text.size());
  if (end == text.size() || (text[end] != '.' && text[end] != 'e' && text[end] != 'E'))
    return std::nullopt;
  double value = 0;
  const std::size_t plus = text[0] == '+' ? 1 : 0;  // from_chars knows no plus
  const auto [stop, error] = std::from_chars(text.data() + plus, text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  cursor.skip(static_cast<std::size_t>(stop - text.data()));
  return value;
}

std::string quoted(std::string_view text) {
  constexpr std::size_t most = 40;
  std::string out = "`";
  for (const char c : text.substr(0, most))
    if (c >= ' ' && c <= '~')
      out += c;
    else
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out + (text.size() > most ? "…`" : "`");
}

}  // namespace vitrine::probe
