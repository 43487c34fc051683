// The words of the query languages, and messages that point at one of them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "query/number.hpp"

namespace vitrine::query {

struct Token {
  enum class Kind : std::uint8_t { end, word, number, text, symbol };
  Kind kind = Kind::end;
  std::string text;  ///< a word, a symbol, or what stands between the quotes, escapes resolved
  Number number = std::int64_t{0};
  std::size_t at = 0;
  std::size_t end = 0;  ///< behind it

  bool is(std::string_view symbol) const { return kind == Kind::symbol && text == symbol; }
  bool is_word(std::string_view word) const { return kind == Kind::word && text == word; }
};

/// usage: `message`; its remedy shows `text` with a caret under `at`, and the next step beside it.
tl::unexpected<Error> syntax_error(std::string_view text, std::size_t at, std::string message,
                                   std::string_view next);

/// Takes a text apart, one token ahead. The text must outlive it.
class Lexer {
 public:
  /// Errors: usage (too long; the first token makes no sense).
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

 private:
  explicit Lexer(std::string_view text) : text_(text) {}
  Result<Token> scan(std::size_t from) const;
  Result<Token> scan_text(std::size_t from) const;
  Result<Token> scan_number(std::size_t from) const;

  std::string_view text_;
  Token token_;
  std::size_t last_end_ = 0;
};

}  // namespace vitrine::query
