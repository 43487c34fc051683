// Arithmetic evaluated without anything of ours: what tests compare our parser, our steps and the
// kernel with. Numbers are exact in 128 bits, and cut to 64 as C cuts them.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vitrine::query::test {

__extension__ typedef __int128 Wide;

/// A number of C: signed or unsigned, of 64 bits.
struct CNumber {
  Wide value = 0;
  bool is_unsigned = false;

  [[nodiscard]] std::uint64_t bits() const { return static_cast<std::uint64_t>(value); }
  static CNumber of(Wide exact, bool is_unsigned) {
    const auto low = static_cast<std::uint64_t>(exact);
    if (is_unsigned) return {static_cast<Wide>(low), true};
    return {static_cast<Wide>(static_cast<std::int64_t>(low)), false};
  }
  [[nodiscard]] CNumber as(bool wants_unsigned) const { return of(value, wants_unsigned); }
};

/// An expression as it is written, and what it is; nothing: it divides by 0.
struct Computed {
  std::string text;
  std::optional<CNumber> number;
};

inline std::optional<CNumber> computed(std::string_view symbol, CNumber left, CNumber right) {
  if (symbol == "<<" || symbol == ">>") {
    const bool far = right.value < 0 || right.value > 63;
    if (symbol == ">>") {
      const Wide end = left.value < 0 ? -1 : 0;
      return CNumber::of(far ? end : left.value >> static_cast<int>(right.value), left.is_unsigned);
    }
    if (far) return CNumber{0, left.is_unsigned};
    return CNumber::of(left.value * (static_cast<Wide>(1) << static_cast<int>(right.value)),
                       left.is_unsigned);
  }
  const bool is_unsigned = left.is_unsigned || right.is_unsigned;
  left = left.as(is_unsigned);
  right = right.as(is_unsigned);
  if ((symbol == "/" || symbol == "%") && right.value == 0) return std::nullopt;
  Wide exact = 0;
  if (symbol == "+") exact = left.value + right.value;
  if (symbol == "-") exact = left.value - right.value;
  if (symbol == "*") return CNumber::of(static_cast<Wide>(left.bits() * right.bits()), is_unsigned);
  if (symbol == "/") exact = left.value / right.value;
  if (symbol == "%") exact = left.value % right.value;
  if (symbol == "&") exact = left.value & right.value;
  if (symbol == "^") exact = left.value ^ right.value;
  if (symbol == "|") exact = left.value | right.value;
  return CNumber::of(exact, is_unsigned);
}

/// Random arithmetic on the arguments given, as a person may write it: with no more parentheses than
/// the precedence of C asks for, or with more.
class ArithmeticChance {
 public:
  explicit ArithmeticChance(unsigned seed) : random_(seed) {}

  std::size_t below(std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_);
  }
  /// Dense in the values at which answers change.
  std::uint64_t word() {
    static constexpr std::uint64_t edges[] = {0,
                                              1,
                                              2,
                                              3,
                                              5,
                                              63,
                                              64,
                                              0xff,
                                              0x7fffffff,
                                              0x80000000,
                                              0xffffffff,
                                              0x7fffffffffffffff,
                                              0x8000000000000000,
                                              0x8000000000000001,
                                              0xfffffffffffffffe,
                                              0xffffffffffffffff};
    return below(3) == 0 ? random_() : edges[below(std::size(edges))];
  }

  Computed expression(const std::vector<Computed>& arguments, int depth) {
    return within(arguments, depth, 0);
  }

 private:
  struct Known {
    const char* symbol;
    int precedence;
  };

  Computed leaf(const std::vector<Computed>& arguments) {
    if (below(3) != 0) return arguments[below(arguments.size())];
    const std::uint64_t number = below(2) == 0 ? below(70) : word();
    const bool is_unsigned = number >> 63 != 0;
    return {std::to_string(number), CNumber::of(static_cast<Wide>(number), is_unsigned)};
  }

  /// `loosest`: precedence below which it needs parentheses where it stands.
  Computed within(const std::vector<Computed>& arguments, int depth, int loosest) {
    if (depth == 0 || below(6) == 0) return leaf(arguments);
    if (below(6) == 0) {
      constexpr int unary = 7;
      Computed of = within(arguments, depth - 1, unary);
      const bool negate = below(2) == 0;
      if (of.number) {
        const Wide value = of.number->value;
        of.number = CNumber::of(negate ? -value : ~value, of.number->is_unsigned);
      }
      of.text = (negate ? "- " : "~") + of.text;
      return of;
    }
    static constexpr Known known[] = {{"|", 1}, {"^", 2}, {"&", 3}, {"<<", 4}, {">>", 4},
                                      {"+", 5}, {"-", 5}, {"*", 6}, {"/", 6},  {"%", 6}};
    const Known& chosen = known[below(std::size(known))];
    Computed left = within(arguments, depth - 1, chosen.precedence);
    const Computed right = within(arguments, depth - 1, chosen.precedence + 1);
    if (left.number && right.number)
      left.number = computed(chosen.symbol, *left.number, *right.number);
    else
      left.number.reset();
    const char* space = below(2) == 0 ? " " : "";
    // A minus between two words, and a star behind one, may be part of a name.
    if (chosen.symbol[0] == '-' || chosen.symbol[0] == '*' || chosen.symbol[0] == '/') space = " ";
    left.text += space + std::string(chosen.symbol) + space + right.text;
    if (chosen.precedence < loosest || below(5) == 0) left.text = "(" + left.text + ")";
    return left;
  }

  std::mt19937_64 random_;
};

}  // namespace vitrine::query::test
