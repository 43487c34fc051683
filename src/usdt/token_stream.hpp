// TokenStream: the tokens of a definition one by one, with what every parser of them needs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "usdt/lexer.hpp"

namespace vitrine::usdt {

/// Looks one token ahead. The first error stays: from then on there are no more tokens, so that every
/// loop that stops at the end stops. What compilers add to C without changing a type (attributes,
/// __extension__, inline) is passed over; directives are kept aside.
class TokenStream {
 public:
  TokenStream(std::string_view text, std::string path);

  const Token& now() const { return now_; }
  bool at_end() const { return now_.kind == Token::Kind::end; }
  bool is(std::string_view text) const {
    return now_.text == text &&
           (now_.kind == Token::Kind::identifier || now_.kind == Token::Kind::punctuation);
  }
  bool is_identifier() const { return now_.kind == Token::Kind::identifier; }

  /// The token behind now().
  const Token& behind() const { return behind_; }

  void advance();
  bool accept(std::string_view text);
  /// Passes over `text`, or fails: "';' is missing after WHAT".
  void expect(std::string_view text, const std::string& after, const std::string& remedy);
  /// Passes over everything from an opening bracket to the one that closes it.
  void skip_brackets();

  void fail(Location at, const std::string& reason, std::string remedy);
  void fail(const std::string& reason, std::string remedy) {
    fail(now_.at, reason, std::move(remedy));
  }
  const std::optional<Error>& error() const { return error_; }

  /// "';'", "the end of the file": as a message names it.
  [[nodiscard]] std::string named() const;
  [[nodiscard]] std::string place(Location at) const { return lexer_.place(at); }

  const std::vector<Token>& pragmas() const { return pragmas_; }

 private:
  void stop_on_error();
  Token pull();
  Token pull_plain();
  void take_directive(Token directive);

  Lexer lexer_;
  Token now_, behind_;
  std::vector<Token> pragmas_;
  std::optional<Error> error_;
};

}  // namespace vitrine::usdt
