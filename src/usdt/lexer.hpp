// Lexer: the tokens of a provider definition file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace vitrine::usdt {

/// Where the user wrote something: after the C preprocessor, that is not where the lexer is.
struct Location {
  std::uint32_t file = 0;  ///< index into the files that lines are of
  std::uint32_t line = 0;
};

struct Token {
  enum class Kind { identifier, number, string, punctuation, directive, end };
  Kind kind = Kind::end;
  std::string text;  ///< of a directive: its line without '#', comments and line continuations
  Location at;
};

class Lexer {
 public:
  /// `path` is for messages. `text` must outlive the lexer.
  Lexer(std::string_view text, std::string path);

  /// The next token; after the last one, `end` for ever. Line directives are followed, not returned.
  /// Errors: malformed (no text, a comment or string that does not end).
  Result<Token> next();

  [[nodiscard]] std::string place(Location at) const;  ///< "shop.d:12"

  [[nodiscard]] Error problem(Location at, const std::string& reason, std::string remedy) const;

 private:
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool starts(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  Location here() const { return {file_, line_}; }
  std::optional<Error> skip_space();
  std::optional<Error> skip_comment();
  [[nodiscard]] bool is_remark() const;
  std::optional<Error> read_directive(std::string& line);
  std::optional<Error> follow_line_marker(std::string_view line, Location at);
  Result<Token> quoted(char quote);
  void step();

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<std::string> files_;
  std::unordered_map<std::string, std::uint32_t> file_numbers_;
  std::uint32_t file_ = 0;
  std::uint32_t line_ = 1;
  bool line_start_ = true;  // only space since the last newline
};

// TokenStream: the tokens of a definition one by one, with what every parser of them needs.

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
