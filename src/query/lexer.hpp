// Words and numbers of the query languages.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.hpp"
#include "probe/evaluate.hpp"

namespace vitrine::query {

using Number = std::variant<std::int64_t, std::uint64_t, double>;

// Numbers as targets have them: compared as mathematics does, whatever their types.

/// Exact: -1 is less than the largest uint64_t, and 2^53 + 1 is more than 2^53 as a double.
std::partial_ordering compare(const Number& left, const Number& right);

/// As int64_t where that holds it: numbers are equal as Number only in one type.
Number narrowest(std::uint64_t number);

double to_double(const Number& number);

/// All of `text` as a number: 17, -3, 0x1f, 2.5, 1e9. Digits may be parted: 1_000_000.
std::optional<Number> parse_number(std::string_view text);

/// The number that a value is, if it is one: true is 1, a pointer is its address, an enumerator its
/// value; text that reads as a number is that number.
std::optional<Number> number_of(const probe::Value& value);

// The words of the query languages, and messages that point at one of them.

struct Token {
  enum class Kind : std::uint8_t { end, word, number, text, symbol };
  Kind kind = Kind::end;
  std::string text;  ///< a word, a symbol, or what is between the quotes, escapes resolved
  Number number = std::int64_t{0};
  std::size_t at = 0;
  std::size_t end = 0;  ///< behind it

  bool is(std::string_view symbol) const { return kind == Kind::symbol && text == symbol; }
  bool is_word(std::string_view word) const { return kind == Kind::word && text == word; }
};

/// usage: `message`; its remedy shows `text` with a caret under `at`, and the next step beside it. That is for a
/// terminal: see as_sentences().
tl::unexpected<Error> syntax_error(std::string_view text, std::size_t at, std::string message,
                                   std::string_view next);

/// The same without the caret: the message quotes the text, and the remedy is the next step. Any other error as it is.
Error as_sentences(Error error);

/// Takes a text apart, one token ahead. The text must outlive it.
class Lexer {
 public:
  /// Errors: usage (too long; the first token is invalid).
  static Result<Lexer> open(std::string_view text);

  const Token& peek() const { return token_; }
  std::string_view text() const { return text_; }
  /// Where the token before the one ahead ended.
  std::size_t last_end() const { return last_end_; }

  /// Goes on behind the token ahead. Errors: usage.
  Result<Token> take();
  /// Takes the token ahead if it is this symbol.
  Result<bool> skip(std::string_view symbol);

  tl::unexpected<Error> error(std::string message, std::string_view next) const {
    return syntax_error(text_, token_.at, std::move(message), next);
  }
  /// The token ahead, as messages quote it.
  std::string ahead() const;

  std::size_t nesting = 0;  ///< of operands, for their parsers to bound

 private:
  explicit Lexer(std::string_view text) : text_(text) {}
  Result<Token> scan(std::size_t from) const;
  Result<Token> scan_symbol(std::size_t from) const;
  [[nodiscard]] bool is_behind_operand() const;
  [[nodiscard]] bool is_in_name(std::size_t at) const;
  Result<Token> scan_text(std::size_t from) const;
  Result<Token> scan_number(std::size_t from) const;

  std::string_view text_;
  Token token_;
  std::size_t last_end_ = 0;
};

}  // namespace vitrine::query
