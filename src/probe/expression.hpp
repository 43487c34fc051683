// Operands as their grammars read them: a cursor over the text, terms, and expressions.
#pragma once

#include <cctype>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "probe/argument.hpp"

namespace vitrine::probe {

// Cursor: a place in the text of an operand.

class Cursor {
 public:
  explicit Cursor(std::string_view text) : rest_(text) {}

  [[nodiscard]] bool done() const { return rest_.empty(); }
  [[nodiscard]] std::string_view rest() const { return rest_; }
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return ahead < rest_.size() ? rest_[ahead] : '\0';
  }
  void skip(std::size_t bytes) { rest_.remove_prefix(bytes); }

  Cursor& skip_blanks() {
    while (!done() && is_blank(peek())) skip(1);
    return *this;
  }

  /// Takes `expected` if it is what comes, after blanks.
  bool take(std::string_view expected) {
    skip_blanks();
    if (!rest_.starts_with(expected)) return false;
    skip(expected.size());
    return true;
  }

  /// Takes `word`, in any case, if it comes as a whole word.
  bool take_word(std::string_view word) {
    skip_blanks();
    if (rest_.size() < word.size() || is_name(peek(word.size()))) return false;
    for (std::size_t i = 0; i < word.size(); ++i)
      if (upper(rest_[i]) != upper(word[i])) return false;
    skip(word.size());
    return true;
  }

  /// The name that comes: letters, digits, `_`, `.`, `$`, and bytes beyond ASCII. May be empty.
  std::string_view take_name() {
    skip_blanks();
    std::size_t size = 0;
    while (size < rest_.size() && is_name(rest_[size])) ++size;
    const auto name = rest_.substr(0, size);
    skip(size);
    return name;
  }

  static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_name(char c) {
    const char letter = upper(c);
    return (letter >= 'A' && letter <= 'Z') || is_digit(c) || c == '_' || c == '.' || c == '$' ||
           static_cast<unsigned char>(c) >= 0x80;
  }

 private:
  static char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; }

  std::string_view rest_;
};

// OperandText: an operand as its grammar reads it, its symbols still names. Lowering makes the
// flat shape of operand.h of it.

template <class T>
using Parsed = tl::expected<T, ArgumentError>;

inline tl::unexpected<ArgumentError> syntax_error(std::string message) {
  return tl::unexpected<ArgumentError>({ArgumentError::Kind::syntax, std::move(message)});
}
inline tl::unexpected<ArgumentError> unsupported(std::string message) {
  return tl::unexpected<ArgumentError>({ArgumentError::Kind::unsupported, std::move(message)});
}

/// What of a symbol the assembler puts in the place of its name.
enum class SymbolPart : std::uint8_t {
  address,        ///< plain
  got_slot,       ///< GOTPCREL: the address of the word that holds its address
  got_slot_bias,  ///< GOT: the same, from the global offset table
  got_bias,       ///< GOTOFF: its address, from the global offset table
  thread_offset,  ///< tpoff, ntpoff: of a thread-local variable, from the thread pointer
};

struct SymbolUse {
  std::string_view name;
  SymbolPart part = SymbolPart::address;
};

/// A constant expression: numbers, and at most one symbol.
struct Sum {
  std::uint64_t value = 0;  ///< wraps at 64 bits, as assemblers have it
  bool beyond_i64 = false;  ///< a number above INT64_MAX was written without a sign
  std::optional<SymbolUse> symbol;
};

/// A register, by its number in operand.h.
struct Register {
  std::uint8_t number = 0;
  std::uint8_t bytes = 0;  ///< as it is named: 4 for %eax
  std::uint8_t shift = 0;  ///< bits: 8 for %ah
};

struct OperandText {
  enum class Kind : std::uint8_t {
    constant,  ///< `sum`
    real,      ///< `real`
    value,     ///< what is in the register `base`
    memory     ///< what is at base + extend(index) << scale + sum
  };
  Kind kind = Kind::constant;
  std::optional<Register> base, index;
  std::uint8_t scale = 0;        ///< a shift
  std::uint8_t extend = 0;       ///< VITRINE_EXTEND_*
  bool thread_pointer = false;   ///< the address is from the thread pointer too
  bool symbol_is_place = false;  ///< the address is the symbol's: `base` only helped to make it
  Sum sum;
  double real = 0;
};

// Constant expressions of assemblers: `-24`, `0x10`, `arr+4`, `-4+arr`, `8*(3+1)`, `f@GOTPCREL`.

/// Takes the longest expression that comes. What follows `@` selects a part of the symbol.
Parsed<Sum> take_expression(Cursor& cursor);

/// Takes an unsigned number: decimal, 0x hexadecimal or 0 octal. Error: none, or beyond 64 bits.
Parsed<std::uint64_t> take_number(Cursor& cursor);

/// Takes a number with a fraction or an exponent (`1.5e+0`); nullopt when there is none.
std::optional<double> take_real(Cursor& cursor);

/// For messages: the text, escaped and cut to a line.
std::string quoted(std::string_view text);

// From an operand as it is written to where its value is.

/// What is before the `@` of an argument.
struct ArgumentSize {
  std::uint32_t bytes = 0;
  bool is_signed = false;
  bool is_float = false;
};

/// `size`: nullopt where the argument has none, which means a register's own width, else a word.
/// `address` is the site's, `symbols` may be null.
Parsed<vitrine_operand> lower(const OperandText& text, std::optional<ArgumentSize> size,
                              Machine machine, Address address, OperandSymbols* symbols);

}  // namespace vitrine::probe
