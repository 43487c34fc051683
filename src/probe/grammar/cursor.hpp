// Cursor: a place in the text of an operand.
#pragma once

#include <cctype>
#include <string_view>

namespace vitrine::probe {

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

}  // namespace vitrine::probe
