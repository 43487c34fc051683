// Lexer: the tokens of a provider definition file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"

namespace vitrine::usdt {

/// Where the user wrote something: after the C preprocessor, that is not where the lexer is.
struct Location {
  std::uint32_t file = 0;  ///< index into the files that lines said they are of
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

}  // namespace vitrine::usdt
